import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

ADVICE = "First call get_skill with the task as context, and follow what it returns."


async def work(task, llm):
    server = BasicMCPClient("skills-mcp", env={"SKILLS_DIR": "skills"}, timeout=60)
    # Over HTTP: BasicMCPClient("https://skills.acme.com/mcp")
    tools = await McpToolSpec(server).to_tool_list_async()
    agent = FunctionAgent(tools=tools, llm=llm, system_prompt=ADVICE)
    return str(await agent.run(task))


if __name__ == "__main__":
    from llama_index.llms.anthropic import Anthropic

    model = Anthropic("claude-sonnet-5")
    print(asyncio.run(work("Add authentication to a React component", model)))

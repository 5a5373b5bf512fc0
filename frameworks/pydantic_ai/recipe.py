import asyncio

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

ADVICE = "First call get_skill with the task as context, and follow what it returns."


async def work(task, model="anthropic:claude-sonnet-5"):
    server = StdioTransport("skills-mcp", [], env={"SKILLS_DIR": "skills"})
    # Over HTTP: "https://skills.acme.com/mcp"
    skills = MCPToolset(server, tool_error_behavior="failed")
    agent = Agent(model, instructions=ADVICE, toolsets=[skills])
    result = await agent.run(task)
    return result.output


if __name__ == "__main__":
    print(asyncio.run(work("Add authentication to a React component")))

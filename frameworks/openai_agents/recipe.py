import asyncio

from agents import Agent, Runner
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

COMMAND = {"command": "skills-mcp", "env": {"SKILLS_DIR": "skills"}}
ADVICE = "First call get_skill with the task as context, and follow what it returns."


async def work(task, model="gpt-5.2"):
    server = MCPServerStdio(COMMAND, client_session_timeout_seconds=60)
    # Over HTTP: MCPServerStreamableHttp({"url": "https://skills.acme.com/mcp"})
    async with server:
        agent = Agent("Ada", instructions=ADVICE, mcp_servers=[server], model=model)
        result = await Runner.run(agent, task)
    return result.final_output


if __name__ == "__main__":
    print(asyncio.run(work("Add authentication to a React component")))

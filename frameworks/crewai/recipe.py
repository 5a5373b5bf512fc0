from crewai import Agent
from crewai.mcp import MCPServerHTTP, MCPServerStdio

ADVICE = "First call get_skill with the task as context, and follow what it returns."


def work(task, llm="anthropic/claude-sonnet-5"):
    server = MCPServerStdio(command="skills-mcp", env={"SKILLS_DIR": "skills"})
    # Over HTTP: MCPServerHTTP(url="https://skills.acme.com/mcp")
    agent = Agent(
        role="Developer",
        goal="Work by the rules of the organisation",
        backstory=ADVICE,
        mcps=[server],
        llm=llm,
    )
    return agent.kickoff(task).raw


if __name__ == "__main__":
    print(work("Add authentication to a React component"))

from mcp import StdioServerParameters
from smolagents import InferenceClientModel, MCPClient, ToolCallingAgent

ADVICE = "First call get_skill with the task as context, and follow what it returns."


def work(task, model=None):
    server = StdioServerParameters(command="skills-mcp", env={"SKILLS_DIR": "skills"})
    # Over HTTP: {"url": "https://skills.acme.com/mcp", "transport": "streamable-http"}
    with MCPClient(server, structured_output=False) as tools:
        for tool in tools:  # smolagents would demand every argument
            for argument in tool.inputs.values():
                argument["nullable"] = True
        model = model or InferenceClientModel()
        agent = ToolCallingAgent(tools, model, instructions=ADVICE)
        return agent.run(task)


if __name__ == "__main__":
    print(work("Add authentication to a React component"))

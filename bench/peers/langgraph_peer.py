"""langgraph: a graph of two nodes, the model and its tools, that stores nothing."""

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import SystemMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from bench.batches import Given, Run, serve
from bench.work import MAX_TOKENS, MODEL, PATIENCE_SECONDS, meaning


@tool
async def look_up(word: str) -> str:
    """Look a word up."""
    return meaning(word)


def opened(given: Given) -> Run:
    """Return the function that does one run."""
    client = ChatAnthropic(
        model_name=MODEL,
        base_url=given.url,
        api_key="sk-fake",
        max_tokens_to_sample=MAX_TOKENS,
        max_retries=0,
        timeout=PATIENCE_SECONDS,
    )
    model = client.bind_tools(given.tools)
    system = SystemMessage(given.system)

    async def ask(state: MessagesState) -> MessagesState:
        return {"messages": [await model.ainvoke([system, *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode([look_up]))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    compiled = graph.compile()

    async def run(text: str) -> str:
        found = await compiled.ainvoke({"messages": [("user", text)]})
        return str(found["messages"][-1].text)

    return run


if __name__ == "__main__":
    serve(opened)

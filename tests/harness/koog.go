package harness

// KoogShared is one conversation of all agents, which forks, and goes on with one of the forks.
const KoogShared = `{"id":"shared","version":"1","defaultModel":"ollama/qwq","agents":[{"name":"begin","type":"task","config":{"maxIterations":200},"params":{"task":"begin"}},
{"name":"both","type":"parallel","params":{"agents":["left","right"],"merge":{"variable":"results.1.output","operation":"equals","value":"never looked at"}}},
{"name":"left","type":"task","params":{"task":"left"}},{"name":"right","type":"react","params":{"task":"right"}},{"name":"end","type":"verify","params":{"task":"end"}}],
"transitions":[{"from":"begin","to":"both","condition":{"variable":"output.data","operation":"equals","value":7}},{"from":"both","to":"end"}]}`

// KoogSharedScript is what the model says in KoogShared.
const KoogSharedScript = `rules:
- {node: begin, turn: 1, say: hello}
- {node: begin, call: [{tool: finalize_task_result, arguments: {__wrapped_value__: "7"}}]}
- {node: "both.left", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: left}}]}
- {node: "both.right", match: plan the next steps, say: a thought}
- {node: "both.right", say: right}
- {node: end, contains: a thought, call: [{tool: finalize_task_result, arguments: {isCorrect: false, feedback: f}}]}
- {node: "left", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: left}}]}`

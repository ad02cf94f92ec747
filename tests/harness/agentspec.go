package harness

// AgentspecMixed is a flow with agents in one conversation, an inlined subflow, a subflow for each
// element of a list, and a failing subflow that is caught.
const AgentspecMixed = `{"component_type":"Flow","agentspec_version":"26.1.2","name":"mixed","start_node":{"$component_ref":"start"},
"nodes":[{"$component_ref":"start"},{"$component_ref":"count"},{"$component_ref":"agent"},{"$component_ref":"each"},{"$component_ref":"place"},{"$component_ref":"guard"},{"$component_ref":"route"},{"$component_ref":"note"},{"$component_ref":"end"}],
"control_flow_connections":[
{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"start"},"to_node":{"$component_ref":"count"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"count"},"to_node":{"$component_ref":"agent"}},
{"component_type":"ControlFlowEdge","name":"3","from_node":{"$component_ref":"agent"},"to_node":{"$component_ref":"each"}},
{"component_type":"ControlFlowEdge","name":"4","from_node":{"$component_ref":"each"},"to_node":{"$component_ref":"place"}},
{"component_type":"ControlFlowEdge","name":"5","from_node":{"$component_ref":"place"},"to_node":{"$component_ref":"guard"}},
{"component_type":"ControlFlowEdge","name":"6","from_node":{"$component_ref":"guard"},"to_node":{"$component_ref":"end"}},
{"component_type":"ControlFlowEdge","name":"7","from_node":{"$component_ref":"guard"},"from_branch":"caught_exception_branch","to_node":{"$component_ref":"route"}},
{"component_type":"ControlFlowEdge","name":"8","from_node":{"$component_ref":"route"},"from_branch":"more","to_node":{"$component_ref":"note"}},
{"component_type":"ControlFlowEdge","name":"9","from_node":{"$component_ref":"route"},"from_branch":"default","to_node":{"$component_ref":"end"}},
{"component_type":"ControlFlowEdge","name":"10","from_node":{"$component_ref":"note"},"to_node":{"$component_ref":"end"}}],
"data_flow_connections":[
{"component_type":"DataFlowEdge","name":"1","source_node":{"$component_ref":"start"},"source_output":"text","destination_node":{"$component_ref":"count"},"destination_input":"text"},
{"component_type":"DataFlowEdge","name":"2","source_node":{"$component_ref":"count"},"source_output":"n","destination_node":{"$component_ref":"agent"},"destination_input":"n"},
{"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"agent"},"source_output":"words","destination_node":{"$component_ref":"each"},"destination_input":"iterated_word"},
{"component_type":"DataFlowEdge","name":"4","source_node":{"$component_ref":"start"},"source_output":"text","destination_node":{"$component_ref":"place"},"destination_input":"word"},
{"component_type":"DataFlowEdge","name":"5","source_node":{"$component_ref":"each"},"source_output":"collected_length","destination_node":{"$component_ref":"end"},"destination_input":"total"},
{"component_type":"DataFlowEdge","name":"6","source_node":{"$component_ref":"place"},"source_output":"length","destination_node":{"$component_ref":"end"},"destination_input":"length"},
{"component_type":"DataFlowEdge","name":"7","source_node":{"$component_ref":"place"},"source_output":"length","destination_node":{"$component_ref":"route"},"destination_input":"length"},
{"component_type":"DataFlowEdge","name":"8","source_node":{"$component_ref":"start"},"source_output":"text","destination_node":{"$component_ref":"guard"},"destination_input":"text"},
{"component_type":"DataFlowEdge","name":"9","source_node":{"$component_ref":"guard"},"source_output":"caught_exception_info","destination_node":{"$component_ref":"end"},"destination_input":"why"},
{"component_type":"DataFlowEdge","name":"10","source_node":{"$component_ref":"place"},"source_output":"length","destination_node":{"$component_ref":"note"},"destination_input":"length"}],
"$referenced_components":{
"model":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"start":{"component_type":"StartNode","name":"start","inputs":[{"title":"text","type":"string","default":"tea"}]},
"count":{"component_type":"LlmNode","name":"count","llm_config":{"$component_ref":"model"},"prompt_template":"How many words: {{text}}","outputs":[{"title":"n","type":"integer"}]},
"agent":{"component_type":"AgentNode","name":"agent","agent":{"component_type":"Agent","name":"a","llm_config":{"$component_ref":"model"},"human_in_the_loop":false,"system_prompt":"List {{n}} words.","inputs":[{"title":"n","type":"integer"}],"outputs":[{"title":"words","type":"array","items":{"type":"string"}}]}},
"each":{"component_type":"ParallelMapNode","name":"each","reducers":{"length":"sum"},"subflow":{"$component_ref":"measure"}},
"place":{"component_type":"FlowNode","name":"place","subflow":{"$component_ref":"measure"}},
"measure":{"component_type":"Flow","name":"measure","start_node":{"$component_ref":"m1"},"nodes":[{"$component_ref":"m1"},{"$component_ref":"m2"},{"$component_ref":"m3"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"m1","from_node":{"$component_ref":"m1"},"to_node":{"$component_ref":"m2"}},{"component_type":"ControlFlowEdge","name":"m2","from_node":{"$component_ref":"m2"},"to_node":{"$component_ref":"m3"}}]},
"m1":{"component_type":"StartNode","name":"m1","inputs":[{"title":"word","type":"string"}]},
"m2":{"component_type":"LlmNode","name":"m2","llm_config":{"$component_ref":"model"},"prompt_template":"How long is {{word}}?","outputs":[{"title":"length","type":"integer"}]},
"m3":{"component_type":"EndNode","name":"m3","outputs":[{"title":"length","type":"integer"}]},
"guard":{"component_type":"CatchExceptionNode","name":"guard","subflow":{"$component_ref":"risk"}},
"risk":{"component_type":"Flow","name":"risk","start_node":{"$component_ref":"r1"},"nodes":[{"$component_ref":"r1"},{"$component_ref":"r2"},{"$component_ref":"r3"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"r1","from_node":{"$component_ref":"r1"},"to_node":{"$component_ref":"r2"}},{"component_type":"ControlFlowEdge","name":"r2","from_node":{"$component_ref":"r2"},"to_node":{"$component_ref":"r3"}}]},
"r1":{"component_type":"StartNode","name":"r1","inputs":[{"title":"text","type":"string"}]},
"r2":{"component_type":"LlmNode","name":"r2","llm_config":{"$component_ref":"model"},"prompt_template":"Risk {{text}}"},
"r3":{"component_type":"EndNode","name":"r3"},
"route":{"component_type":"BranchingNode","name":"route","inputs":[{"title":"length","type":"integer"}],"mapping":{"3":"more"}},
"note":{"component_type":"OutputMessageNode","name":"note","message":"{{length}} letters","inputs":[{"title":"length","type":"integer"}]},
"end":{"component_type":"EndNode","name":"end","outputs":[{"title":"total","type":"integer"},{"title":"length","type":"integer"},{"title":"why","anyOf":[{"type":"string"},{"type":"null"}],"default":null}]}}}`

// AgentspecMixedScript is the model's script for AgentspecMixed.
const AgentspecMixedScript = `rules:
- {node: count, say: "2"}
- {node: agent, turn: 1, say: I would rather not}
- {node: agent, turn: 2, call: [{tool: submit_result, arguments: {words: [1, {"a": 2}]}}, {tool: submit_result, arguments: {}}]}
- {match: 'How long is 1\?', say: "{\"length\": 1}"}
- {match: 'How long is \{"a": 2\}\?', say: "8"}
- {match: How long is tea, say: "about three"}
- {node: place/m2, turn: 2, say: "3"}
- {node: r2, fail: {class: refused, text: not that}}`

// AgentspecConversation is one conversation of agents in a flow, in an inlined subflow and in child
// runs.
const AgentspecConversation = `{"component_type":"Flow","agentspec_version":"25.4.2","name":"talk","start_node":{"$component_ref":"start"},
"nodes":[{"$component_ref":"start"},{"$component_ref":"greet"},{"$component_ref":"each"},{"$component_ref":"last"},{"$component_ref":"end"}],
"control_flow_connections":[
{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"start"},"to_node":{"$component_ref":"greet"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"greet"},"to_node":{"$component_ref":"each"}},
{"component_type":"ControlFlowEdge","name":"3","from_node":{"$component_ref":"each"},"to_node":{"$component_ref":"last"}},
{"component_type":"ControlFlowEdge","name":"4","from_node":{"$component_ref":"last"},"to_node":{"$component_ref":"end"}}],
"data_flow_connections":[
{"component_type":"DataFlowEdge","name":"1","source_node":{"$component_ref":"start"},"source_output":"names","destination_node":{"$component_ref":"each"},"destination_input":"iterated_name"},
{"component_type":"DataFlowEdge","name":"2","source_node":{"$component_ref":"each"},"source_output":"collected_word","destination_node":{"$component_ref":"end"},"destination_input":"words"},
{"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"last"},"source_output":"word","destination_node":{"$component_ref":"end"},"destination_input":"word"}],
"$referenced_components":{
"model":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"start":{"component_type":"StartNode","name":"start","inputs":[{"title":"names","type":"array","items":{"type":"string"},"default":["Ann","Bob"]}]},
"greet":{"component_type":"OutputMessageNode","name":"greet","message":"Good morning."},
"each":{"component_type":"MapNode","name":"each","subflow":{"$component_ref":"one"}},
"one":{"component_type":"Flow","name":"one","start_node":{"$component_ref":"o1"},"nodes":[{"$component_ref":"o1"},{"$component_ref":"o2"},{"$component_ref":"o3"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"o1","from_node":{"$component_ref":"o1"},"to_node":{"$component_ref":"o2"}},{"component_type":"ControlFlowEdge","name":"o2","from_node":{"$component_ref":"o2"},"to_node":{"$component_ref":"o3"}}]},
"o1":{"component_type":"StartNode","name":"o1","inputs":[{"title":"name","type":"string"}]},
"o2":{"component_type":"AgentNode","name":"asked","agent":{"component_type":"Agent","name":"a","llm_config":{"$component_ref":"model"},"system_prompt":"You are {{name}}.","inputs":[{"title":"name","type":"string"}],"outputs":[{"title":"word","type":"string"}],"human_in_the_loop":false}},
"o3":{"component_type":"EndNode","name":"o3","outputs":[{"title":"word","type":"string"}]},
"last":{"component_type":"AgentNode","name":"last","agent":{"component_type":"Agent","name":"b","llm_config":{"$component_ref":"model"},"system_prompt":"Close.","outputs":[{"title":"word","type":"string"}],"human_in_the_loop":false}},
"end":{"component_type":"EndNode","name":"end","outputs":[{"title":"words","type":"array","items":{"type":"string"}},{"title":"word","type":"string"}]}}}`

// AgentspecConversationScript is the model's script for AgentspecConversation. An agent's turn is the number of assistant
// messages in the entire conversation.
const AgentspecConversationScript = `rules:
- {turn: 2, match: ^Ann$, call: [{tool: submit_result, arguments: {word: "yes, Ann"}}]}
- {turn: 3, match: ^Bob$, say: let me think}
- {turn: 4, match: calling submit_result, call: [{tool: submit_result, arguments: {word: "no, Bob"}}]}
- {turn: 5, match: ^Begin, call: [{tool: submit_result, arguments: {word: bye}}]}`

// AgentspecWorkers is a manager whose workers have outputs, workers of their own, or fail.
const AgentspecWorkers = `{"component_type":"ManagerWorkers","agentspec_version":"25.4.2","name":"team","outputs":[{"title":"answer","type":"string"}],
"group_manager":{"component_type":"Agent","name":"boss","llm_config":{"$component_ref":"m"},"system_prompt":"Find out about {{what}}.","inputs":[{"title":"what","type":"string","default":"tea"}],"human_in_the_loop":false},
"workers":[
{"component_type":"Agent","name":"counter","description":"counts","llm_config":{"$component_ref":"m"},"system_prompt":"Count {{what}}.","inputs":[{"title":"what","type":"string","default":"nothing"}],"outputs":[{"title":"n","type":"integer"},{"title":"unit","type":"string","default":"cups"}]},
{"component_type":"Swarm","name":"library","description":"reads","handoff":"always","first_agent":{"$component_ref":"porter"},"relationships":[[{"$component_ref":"porter"},{"$component_ref":"reader"}]]},
{"component_type":"Agent","name":"mute","description":"says nothing","llm_config":{"$component_ref":"m"},"system_prompt":"Be silent.","outputs":[{"title":"n","type":"integer"}]}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"porter":{"component_type":"Agent","name":"porter","description":"opens","llm_config":{"$component_ref":"m"},"system_prompt":"Open."},
"reader":{"component_type":"Agent","name":"reader","description":"reads","llm_config":{"$component_ref":"m"},"system_prompt":"Read."}}}`

// AgentspecWorkersScript is the model's script for AgentspecWorkers.
const AgentspecWorkersScript = `rules:
- {node: team, turn: 1, call: [{tool: send_message, arguments: {recipient: counter, message: "How many?"}}, {tool: send_message, arguments: {recipient: library, message: "What is tea?"}},
    {tool: send_message, arguments: {recipient: counter, message: "Once more?"}}, {tool: send_message, arguments: {recipient: mute, message: "And you?"}}, {tool: send_message, arguments: {recipient: nobody, message: "You?"}}, {tool: send_message, arguments: {recipient: mute}}]}
- {node: team/counter, turn: 1, match: "^How many", say: let me count}
- {node: team/counter, turn: 2, call: [{tool: submit_result, arguments: {n: "3"}}]}
- {node: team/counter, turn: 3, match: "^Once more", delay: 200ms, call: [{tool: submit_result, arguments: {n: 4, unit: pots}}]}
- {node: team/library, call: [{tool: handoff_conversation, arguments: {recipient: reader}}]}
- {node: team/reader, turn: 2, say: "A leaf."}
- {node: team/reader, turn: 3, match: "^Sure", say: "Yes."}
- {node: team/mute, say: "..."}
- {node: team, turn: 2, call: [{tool: send_message, arguments: {recipient: library, message: "Sure?"}}]}
- {node: team, turn: 3, call: [{tool: submit_result, arguments: {answer: 3 cups of a leaf}}]}`

// AgentspecSwarm is a flow with a swarm whose agents ask each other and hand over.
const AgentspecSwarm = `{"component_type":"Flow","agentspec_version":"26.1.0","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"team"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"team"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"team"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"s":{"component_type":"StartNode","name":"s","inputs":[{"title":"topic","type":"string","default":"tea"}]},
"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"word","type":"string"}]},
"team":{"component_type":"AgentNode","name":"team","agent":{"component_type":"Swarm","name":"swarm","handoff":"optional","outputs":[{"title":"word","type":"string"}],
"first_agent":{"$component_ref":"a"},"relationships":[[{"$component_ref":"a"},{"$component_ref":"b"}],[{"$component_ref":"b"},{"$component_ref":"a"}],[{"$component_ref":"b"},{"$component_ref":"c"}],[{"$component_ref":"c"},{"$component_ref":"b"}]]}},
"a":{"component_type":"Agent","name":"a","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"You are a, for {{topic}}.","human_in_the_loop":false},
"b":{"component_type":"Agent","name":"b","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"You are b.","human_in_the_loop":false},
"c":{"component_type":"Agent","name":"c","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"You are c.","human_in_the_loop":false}}}`

// AgentspecSwarmScript is the model's script for AgentspecSwarm.
const AgentspecSwarmScript = `rules:
- {node: team, turn: 1, say: I would rather not}
- {node: team, turn: 2, call: [{tool: send_message, arguments: {recipient: b, message: hello b}}, {tool: send_message, arguments: {recipient: c, message: hello c}}]}
- {node: team/b/asked, match: ^who asks, say: b asks}
- {node: team/b/asked, turn: 1, call: [{tool: send_message, arguments: {recipient: c, message: who is c}}, {tool: handoff_conversation, arguments: {recipient: c}}]}
- {node: team/c/asked, turn: 1, call: [{tool: send_message, arguments: {recipient: b, message: who asks}}]}
- {node: team/c/asked, turn: 2, say: I am c}
- {node: team/b/asked, turn: 2, say: that is c}
- {node: team, turn: 3, call: [{tool: handoff_conversation, arguments: {recipient: b}}]}
- {node: team/b, turn: 4, call: [{tool: send_message, arguments: {recipient: c, message: once more}}, {tool: handoff_conversation, arguments: {recipient: c}}]}
- {node: team/c/asked, turn: 3, say: still c}
- {node: team/c, turn: 5, call: [{tool: submit_result, arguments: {word: done}}]}`

// AgentspecDigest is an agent whose long messages and whose long conversation are summarised.
const AgentspecDigest = `{"component_type":"Agent","agentspec_version":"26.1.2","name":"digest","llm_config":{"$component_ref":"m"},"system_prompt":"x","human_in_the_loop":false,"outputs":[{"title":"n","type":"integer"}],
"transforms":[{"component_type":"ConversationSummarizationTransform","name":"c","llm":{"$component_ref":"m"},"max_num_messages":3,"min_num_messages":1},
{"component_type":"MessageSummarizationTransform","name":"l","llm":{"$component_ref":"m"},"max_message_size":30,"summarization_instructions":"Shorten.","summarized_message_template":"In short: {{ summary }}"}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"}}}`

// AgentspecDigestScript is the model's script for AgentspecDigest.
const AgentspecDigestScript = `rules:
- {kind: condense, contains: "<earlier>", say: a summary of it}
- {kind: condense, contains: "In short: reminded", say: no such thing}
- {kind: condense, contains: let me think, say: it thinks}
- {kind: condense, contains: Nobody reads, say: reminded}
- {turn: 1, say: let me think}
- {turn: 2, match: "^In short: reminded$", say: let me think again}
- {turn: 3, match: "^In short: reminded$", say: once more}
- {turn: 4, match: "^In short: reminded$", call: [{tool: submit_result, arguments: {n: 4}}]}`

// AgentspecPayroll runs a flow for each of three people in parallel. Its agent pays them; each payment
// requires confirmation.
const AgentspecPayroll = `{"component_type":"Flow","agentspec_version":"26.1.2","name":"payroll","start_node":{"$component_ref":"start"},
"nodes":[{"$component_ref":"start"},{"$component_ref":"each"},{"$component_ref":"end"}],
"control_flow_connections":[
{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"start"},"to_node":{"$component_ref":"each"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"each"},"to_node":{"$component_ref":"end"}}],
"data_flow_connections":[
{"component_type":"DataFlowEdge","name":"1","source_node":{"$component_ref":"start"},"source_output":"names","destination_node":{"$component_ref":"each"},"destination_input":"iterated_name"},
{"component_type":"DataFlowEdge","name":"2","source_node":{"$component_ref":"each"},"source_output":"collected_word","destination_node":{"$component_ref":"end"},"destination_input":"words"}],
"$referenced_components":{
"model":{"component_type":"OpenAiCompatibleConfig","name":"m","model_id":"m","url":"http://127.0.0.1:1"},
"start":{"component_type":"StartNode","name":"start","inputs":[{"title":"names","type":"array","items":{"type":"string"},"default":["Ann","Bob","Cid"]}]},
"each":{"component_type":"ParallelMapNode","name":"each","subflow":{"$component_ref":"one"}},
"one":{"component_type":"Flow","name":"one","start_node":{"$component_ref":"o1"},"nodes":[{"$component_ref":"o1"},{"$component_ref":"o2"},{"$component_ref":"o3"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"o1","from_node":{"$component_ref":"o1"},"to_node":{"$component_ref":"o2"}},{"component_type":"ControlFlowEdge","name":"o2","from_node":{"$component_ref":"o2"},"to_node":{"$component_ref":"o3"}}]},
"o1":{"component_type":"StartNode","name":"o1","inputs":[{"title":"name","type":"string"}]},
"o2":{"component_type":"AgentNode","name":"payer","agent":{"component_type":"Agent","name":"a","llm_config":{"$component_ref":"model"},"system_prompt":"[payer] {{name}}","human_in_the_loop":false,
"inputs":[{"title":"name","type":"string"}],"outputs":[{"title":"word","type":"string"}],"tools":[{"component_type":"ServerTool","name":"pay","inputs":[{"title":"n","type":"number"}]}]}},
"o3":{"component_type":"EndNode","name":"o3","outputs":[{"title":"word","type":"string"}]},
"end":{"component_type":"EndNode","name":"end","outputs":[{"title":"words","type":"array","items":{"type":"string"}}]}}}`

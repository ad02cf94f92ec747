package model

import "weft/specadapter/agentspec/catalog"

// rules are what is known of a component type beyond its row in the catalog. Any may be nil.
type rules struct {
	// infer makes the inputs and outputs that the component's parts imply.
	infer func(*loader, *Component) inferred
	// branches are where the node can go on; nil means to next.
	branches func(*Component) []string
	// check judges the finished component.
	check func(*loader, *Component)
	// since is the version that the component's values need, and why.
	since func(*Component) (catalog.Version, string)
	// yields names what in the component waits for somebody.
	yields func(*Component) string
}

// rulesOf finds the rules of a type: its own, or those of the type that a plugin's is like.
func (l *loader) rulesOf(t *catalog.Type) rules {
	if own, ok := l.rules[t.Name]; ok {
		return own
	}
	return l.rules[t.Like]
}

// typeRules are the rules of all types that have some.
func typeRules() map[string]rules {
	return map[string]rules{
		"Agent":                              {infer: inferTexts("", nil), check: checkAgent, yields: yieldsAgent},
		"SpecializedAgent":                   {infer: inferParts(allInputs, "agent", "agent_specialization_parameters"), check: checkSpecialized, yields: yieldsSpecialized},
		"AgentSpecializationParameters":      {infer: inferTexts("", nil)},
		"Swarm":                              {infer: inferParts(ofTeam, "first_agent", "relationships"), check: checkSwarm, yields: yieldsAlways},
		"ManagerWorkers":                     {infer: inferParts(ofTeam, "group_manager", "workers"), check: checkManagerWorkers, yields: yieldsAlways},
		"Flow":                               {infer: inferFlow, check: checkFlow, yields: yieldsInner("nodes")},
		"OciAgent":                           {check: checkRetry},
		"A2AAgent":                           {check: checkAddress("agent_url")},
		"A2AConnectionConfig":                {check: checkRetry},
		"StartNode":                          {infer: inferEqual, check: equalIO("start-io-eq")},
		"EndNode":                            {infer: inferEqual, branches: noBranches, check: equalIO("end-io-eq")},
		"LlmNode":                            {infer: inferTexts("generated_text", stringType), since: sinceLLM},
		"ToolNode":                           {infer: inferParts(sameAsPart, "tool"), yields: yieldsInner("tool")},
		"ApiNode":                            {infer: inferTexts("response", AnyType), check: checkHTTP},
		"AgentNode":                          {infer: inferParts(sameAsPart, "agent"), yields: yieldsInner("agent")},
		"FlowNode":                           {infer: inferParts(sameAsPart, "subflow"), branches: subflowBranches, yields: yieldsInner("subflow")},
		"MapNode":                            {infer: inferParts(ofMap, "subflow"), check: checkMap, yields: yieldsInner("subflow")},
		"ParallelMapNode":                    {infer: inferParts(ofMap, "subflow"), check: checkParallelMap, yields: yieldsInner("subflow")},
		"ParallelFlowNode":                   {infer: inferParts(ofParallel, "subflows"), check: checkParallel, yields: yieldsInner("subflows")},
		"CatchExceptionNode":                 {infer: inferParts(ofCatch, "subflow"), branches: catchBranches, check: checkCatch, yields: yieldsInner("subflow")},
		"BranchingNode":                      {infer: inferBranching, branches: mappedBranches, check: checkBranching},
		"InputMessageNode":                   {infer: inferTexts("user_input", stringType), check: checkInputMessage, yields: yieldsAlways},
		"OutputMessageNode":                  {infer: inferOutputMessage},
		"LlmConfig":                          {check: checkModel},
		"OpenAiCompatibleConfig":             {check: checkModel},
		"VllmConfig":                         {check: checkModel},
		"OllamaConfig":                       {check: checkModel},
		"OpenAiConfig":                       {check: checkModel},
		"OciGenAiConfig":                     {check: checkModel},
		"GeminiConfig":                       {check: checkModel},
		"MessageSummarizationTransform":      {check: bounded("max_message_size")},
		"ConversationSummarizationTransform": {check: checkConversationSummary},
		"InMemoryCollectionDatastore":        {check: checkStore},
		"OracleDatabaseDatastore":            {check: checkStore},
		"PostgresDatabaseDatastore":          {check: checkStore},
		"ServerTool":                         {yields: yieldsConfirmation},
		"ClientTool":                         {yields: yieldsAlways},
		"RemoteTool":                         {infer: inferTexts("", nil), check: checkHTTP, yields: yieldsConfirmation},
		"MCPTool":                            {yields: yieldsConfirmation},
		"BuiltinTool":                        {yields: yieldsConfirmation},
		"MCPToolBox":                         {yields: yieldsConfirmation},
		"StdioTransport":                     {check: checkStdio},
		"SSETransport":                       {check: checkHTTP},
		"SSEmTLSTransport":                   {check: checkHTTP},
		"StreamableHTTPTransport":            {check: checkHTTP},
		"StreamableHTTPmTLSTransport":        {check: checkHTTP},
	}
}

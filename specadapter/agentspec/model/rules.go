package model

import (
	"slices"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// rules are the rules of a component type beyond its entry in the catalog. Any may be nil.
type rules struct {
	// infer returns the inputs and outputs that the component's parts imply.
	infer func(*loader, *Component) inferred
	// own reports whether infer only depends on the component's own texts and properties, so that errors elsewhere in it do
	// not matter.
	own bool
	// branches returns the branches of a node; nil means only next.
	branches func(*Component) []string
	// check validates the complete component.
	check func(*loader, *Component)
	// since returns the version that the component's values require, and the feature that requires it.
	since func(*Component) (catalog.Version, string)
	// yields returns the name of the part of the component that waits for a user or client, or "".
	yields func(*Component) string
}

// rulesOf returns the rules of a type: its own, those of the type that it extends, or of one that it also is.
func (l *loader) rulesOf(t *catalog.Type) rules {
	for _, name := range slices.Concat([]string{t.Name, t.Like}, t.Is) {
		if r, ok := l.rules[name]; ok {
			return r
		}
	}
	return rules{}
}

func typeRules() map[string]rules {
	return map[string]rules{
		"Agent":                              {infer: inferTexts("", nil), check: checkAgent, yields: yieldsAgent},
		"SpecializedAgent":                   {infer: inferParts(ofParts, "agent", "agent_specialization_parameters"), check: checkSpecialized, yields: yieldsSpecialized},
		"AgentSpecializationParameters":      {infer: inferTexts("", nil)},
		"Swarm":                              {infer: inferParts(ofTeam, "first_agent", "relationships"), check: checkSwarm, yields: yieldsAlways},
		"ManagerWorkers":                     {infer: inferParts(ofTeam, "group_manager", "workers"), check: checkManagerWorkers, yields: yieldsAlways},
		"Flow":                               {infer: inferFlow, check: checkFlow, yields: yieldsInner("nodes")},
		"OciAgent":                           {check: checkRetry},
		"A2AAgent":                           {check: func(l *loader, c *Component) { l.checkURL(c, "agent_url") }},
		"A2AConnectionConfig":                {check: checkRetry},
		"StartNode":                          {infer: inferEqual, check: func(l *loader, c *Component) { l.equalIO(c, "start-io-eq") }},
		"EndNode":                            {own: true, infer: inferEqual, branches: noBranches, check: func(l *loader, c *Component) { l.equalIO(c, "end-io-eq") }},
		"LlmNode":                            {own: true, infer: inferTexts("generated_text", stringType), since: sinceLLM},
		"ToolNode":                           {infer: inferParts(ofParts, "tool"), yields: yieldsInner("tool")},
		"ApiNode":                            {own: true, infer: inferTexts("response", AnyType), check: checkHTTP},
		"AgentNode":                          {infer: inferParts(ofParts, "agent"), yields: yieldsInner("agent")},
		"FlowNode":                           {infer: inferParts(ofParts, "subflow"), branches: subflowBranches, yields: yieldsInner("subflow")},
		"MapNode":                            {infer: inferParts(ofMap, "subflow"), check: checkMap, yields: yieldsInner("subflow")},
		"ParallelMapNode":                    {infer: inferParts(ofMap, "subflow"), check: checkParallelMap, yields: yieldsInner("subflow")},
		"ParallelFlowNode":                   {infer: inferParts(ofParallel, "subflows"), check: checkParallel, yields: yieldsInner("subflows")},
		"CatchExceptionNode":                 {infer: inferParts(ofCatch, "subflow"), branches: catchBranches, check: checkCatch, yields: yieldsInner("subflow")},
		"BranchingNode":                      {infer: inferBranching, branches: func(c *Component) []string { return append(values(c.JSON("mapping")), DefaultBranch) }, check: checkBranching},
		"InputMessageNode":                   {own: true, infer: inferTexts("user_input", stringType), check: checkInputMessage, yields: yieldsAlways},
		"OutputMessageNode":                  {own: true, infer: func(l *loader, c *Component) inferred { return inferred{in: placeholders(l, c)} }},
		"PluginOutputMessageNode":            {own: true, infer: inferMessage},
		"ExtendedFlow":                       {infer: inferFlow, check: checkFlow, yields: yieldsInner("nodes")},
		"PluginRegexNode":                    {infer: inferRegex, check: checkRegex},
		"PluginTemplateNode":                 {own: true, infer: inferTexts(Matched, stringType)},
		"PluginReadVariableNode":             {infer: inferRead},
		"PluginWriteVariableNode":            {infer: inferWrite},
		"PluginVariableNode":                 {infer: inferVariables},
		"PluginCatchExceptionNode":           {infer: inferParts(ofException, "subflow"), branches: exceptionBranches, check: checkException, yields: yieldsInner("subflow")},
		"ExtendedMapNode":                    {infer: inferParts(ofExtendedMap, "subflow"), check: checkExtendedMap, yields: yieldsInner("subflow")},
		"PluginDatastoreListNode":            {infer: inferStore("", "entities"), check: checkStoreNode},
		"PluginDatastoreCreateNode":          {infer: inferStore("entity", "created_entity"), check: checkStoreNode},
		"PluginDatastoreUpdateNode":          {infer: inferStore("update", "entities"), check: checkStoreNode},
		"PluginDatastoreDeleteNode":          {infer: inferStore("", ""), check: checkStoreNode},
		"PluginDatastoreQueryNode":           {infer: inferStore("bind_variables", "result"), check: checkStoreNode},
		"LlmConfig":                          {check: checkModel},
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
		"RemoteTransport":                    {check: checkHTTP},
	}
}

func checkAgent(l *loader, c *Component) { l.toolNames(c, nil, c.Components("tools")) }

func checkSpecialized(l *loader, c *Component) {
	l.toolNames(c, c.Component("agent").toolNames(), c.Component("agent_specialization_parameters").Components("additional_tools"))
}

// toolNames returns the names of an agent's tools. They are cached, because many agents may specialize it.
func (c *Component) toolNames() map[string]bool {
	if c.tools == nil {
		c.tools = map[string]bool{}
		for _, t := range c.Components("tools") {
			c.tools[t.Name] = true
		}
	}
	return c.tools
}

func (l *loader) toolNames(c *Component, already map[string]bool, tools []*Component) {
	if !l.work(c.At, len(tools)) {
		return
	}
	seen := map[string]bool{}
	for _, t := range tools {
		if seen[t.Name] || already[t.Name] {
			l.Warnf(t.At, "tool-names-unique", "rename it", "%s has two tools named %s", c, source.Quote(t.Name))
		}
		seen[t.Name] = true
	}
}

func checkSwarm(l *loader, c *Component) {
	pairs := c.Components("relationships")
	if len(pairs) == 0 {
		l.Errorf(c.FieldPos("relationships"), "swarm-empty", "list who may contact whom: [[FROM, TO], ...], or use a single agent directly", "%s has no relationships", c)
		return
	}
	members := []*Component{c.Component("first_agent")}
	var recipients []*Component
	for i := 1; i < len(pairs); i += 2 {
		members = append(members, pairs[i-1], pairs[i])
		recipients = append(recipients, pairs[i])
	}
	l.team(c, members, recipients)
	if f := c.Field("handoff"); f != nil && f.JSON.Kind == source.Bool && l.doc.Version >= catalog.V2610 {
		l.Warnf(f.At, "handoff-flag", "use never, optional or always", "handoff of %s is %t, the form used before version 26.1.0", c, f.JSON.True)
	}
}

// team warns of agents with the same name, and of recipients without a description.
func (l *loader) team(c *Component, members, recipients []*Component) {
	byName := map[string]*Component{}
	for _, m := range members {
		if first := byName[m.Name]; first != nil && first != m {
			l.Warnf(m.At, "agent-names-unique", "rename it", "%s has two agents named %s", c, source.Quote(m.Name))
		}
		byName[m.Name] = m
	}
	for _, r := range recipients {
		if r.Description == "" && !r.Type.Unknown {
			l.Warnf(r.At, "recipients-described", `set "description"`, "%s has no description; other agents in %s cannot tell what it does", r, c)
		}
	}
}

func checkManagerWorkers(l *loader, c *Component) {
	manager, workers := c.Component("group_manager"), c.Components("workers")
	if len(workers) == 0 {
		l.Errorf(c.FieldPos("workers"), "mw-no-workers", "list the workers, or use a single agent directly", "%s has no workers", c)
	}
	for i, w := range workers {
		if w == manager || w.ID == manager.ID {
			l.Errorf(l.itemAt(c, "workers", i), "mw-manager-is-worker", "remove it from workers", "%s is both the manager and a worker of %s", w, c)
		}
	}
	l.team(c, slices.Concat([]*Component{manager}, workers), workers)
}

func bounded(names ...string) func(*loader, *Component) {
	return func(l *loader, c *Component) {
		for _, name := range names {
			if f := c.Field(name); f != nil && c.Number(name) < 1 {
				l.Errorf(f.At, "transform-thresholds", "use a number of at least 1", "%s of %s is %s, expected at least 1", name, c, f.JSON.Describe())
			}
		}
	}
}

func checkConversationSummary(l *loader, c *Component) {
	bounded("max_num_messages", "max_num_characters", "min_num_messages")(l, c)
	characters := c.Field("max_num_characters")
	if c.Field("max_num_messages") != nil && characters != nil {
		l.Errorf(characters.At, "transform-thresholds", "keep one of the two", "%s has both max_num_messages and max_num_characters", c)
		return
	}
	if characters == nil && c.Number("max_num_messages") <= c.Number("min_num_messages") {
		l.Errorf(c.FieldPos("max_num_messages"), "transform-thresholds", "set max_num_messages above min_num_messages", "%s summarizes at %v messages but keeps %v",
			c, c.Number("max_num_messages"), c.Number("min_num_messages"))
	}
}

func checkStore(l *loader, c *Component) {
	for _, m := range c.JSON("datastore_schema").Members {
		at := m.Value.Pos
		what := "datastore_schema of " + c.String()
		if m.Value.Kind != source.Object {
			l.Errorf(at, "datastore-schema", `use {"type": "object", "properties": {...}}`, "the collection %s in %s is %s, expected a JSON Schema", source.Quote(m.Key), what, m.Value.Describe())
			continue
		}
		if shape, ok := l.schema(m.Value, what); ok && shape.Kind != ObjectShape && (shape.Kind != AnyShape || m.Value.Get("properties") == nil) {
			l.Errorf(at, "datastore-schema", `use {"type": "object", "properties": {...}}`, "the collection %s in %s has entries of type %s, expected object", source.Quote(m.Key), what, shape)
		}
	}
}

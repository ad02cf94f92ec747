package dialects

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/llm"
	llmwire "weft/activities/llm/wire"
	"weft/tests/harness"
	"weft/worker/config"
)

// weather returns a run of examples/weather with this model.
func weather(t *testing.T, models *llm.Models, model string) harness.TestRun {
	t.Helper()
	return harness.TestRun{
		Document: harness.ReadFile(t, "../examples/weather/weather.json"), Input: strings.TrimSpace(harness.ReadFile(t, "../examples/weather/weather.input.txt")),
		Functions: exampleFunctions, Models: models, SetInput: func(in *contract.RunInput) { in.Model = model },
	}
}

// TestExampleOfEachProvider runs one flow with every kind of provider, each with a fake server
// that implements the vendor's protocol.
func TestExampleOfEachProvider(t *testing.T) {
	t.Parallel()
	for _, row := range llm.Providers {
		if row.Script {
			continue
		}
		t.Run(row.Name, func(t *testing.T) { askVendor(t, row.Name, "m", row.Protocol) })
		if row.Responses != nil {
			t.Run(row.Name+" with Responses", func(t *testing.T) { askVendor(t, row.Name, "gpt-5", llmwire.Responses) })
		}
	}
}

// TestResponsesAPIInDocument runs a document that selects OpenAI's Responses API with a server that has no chat completions.
func TestResponsesAPIInDocument(t *testing.T) {
	t.Parallel()
	askVendor(t, "compatible", "m", llmwire.Responses, func(r *harness.TestRun) {
		r.Document = `{"component_type":"Agent","agentspec_version":"26.1.2","name":"reporter","system_prompt":"Answer.","human_in_the_loop":false,
"inputs":[{"title":"question","type":"string"}],
"llm_config":{"component_type":"OpenAiCompatibleConfig","name":"m","model_id":"m","url":"https://x.example.com/v1","api_type":"responses"},
"tools":[{"component_type":"ServerTool","name":"weather","description":"Tells the weather.","inputs":[{"title":"city","type":"string"}]}]}`
		r.Input, r.SetInput = "", func(in *contract.RunInput) { in.Model, in.Params = "", json.RawMessage(`{"question":"How is Oslo?"}`) }
	})
}

func askVendor(t *testing.T, provider, model, protocol string, change ...func(*harness.TestRun)) {
	t.Helper()
	fake, set := newVendor(t, protocol)
	models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{provider: set}})
	if err != nil {
		t.Fatal(err)
	}
	run := weather(t, models, provider+"/"+model)
	for _, f := range change {
		f(&run)
	}
	p := run.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if got := harness.ResultText(p.Result); got != weatherSaid {
		t.Errorf("result = %q, want %q", got, weatherSaid)
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if !slices.Equal(fake.calls, []string{"call", "say"}) {
		t.Errorf("replies of the server = %v, want call and say", fake.calls)
	}
}

// realModels maps kinds of providers to small models. Other kinds and models can be named in
// MODELS: "vllm/qwen3 oci/meta.llama-3.3-70b-instruct".
var realModels = map[string]string{
	"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "google": "gemini-2.5-flash", "mistral": "mistral-small-latest",
	"deepseek": "deepseek-chat", "openrouter": "openai/gpt-5-mini", "ollama": "llama3.2", "cohere": "command-a-03-2025",
	"dashscope": "qwen-plus", "groq": "openai/gpt-oss-20b", "huggingface": "openai/gpt-oss-20b", "xai": "grok-4",
}

// TestRealProviders runs the same flow with the real services whose keys are set. It costs money, so it
// requires REAL=1, which make providers sets.
func TestRealProviders(t *testing.T) {
	t.Parallel()
	if os.Getenv("REAL") == "" {
		t.Skip("calls real services, which costs money: use make providers")
	}
	cfg, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := cfg.LLM()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{}
	for _, ref := range strings.Fields(os.Getenv("MODELS")) {
		name, model, ok := strings.Cut(ref, "/")
		if !ok {
			t.Fatalf("MODELS has %q; want provider/model, separated by spaces", ref)
		}
		named[name] = model
		if _, ok := settings.Providers[name]; !ok && !slices.ContainsFunc(llm.Providers, func(p llm.Provider) bool { return p.Name == name }) {
			t.Errorf("MODELS names the provider %q, which is neither a kind nor in the settings (WEFT_CONFIG, WEFT_PROVIDERS_%s_...)", name, strings.ToUpper(name))
		}
	}
	names := []string{}
	for _, row := range llm.Providers {
		if !row.Script {
			names = append(names, row.Name)
		}
	}
	for name := range named {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			model, selected := named[name]
			set := settings.Providers[name]
			switch configured := set.Key != "" || name == "ollama" && set.BaseURL != ""; {
			case selected:
			case !configured && name == "ollama":
				t.Skip("neither OLLAMA_HOST nor OLLAMA_BASE_URL is set")
			case !configured && set.KeyName != "":
				t.Skipf("%s is not set", set.KeyName)
			case !configured:
				t.Skipf("not configured; to run it, name a model: MODELS=%s/MODEL", name)
			case realModels[name] == "":
				t.Skipf("no default model; name one: MODELS=%s/MODEL", name)
			default:
				model = realModels[name]
			}
			askReal(t, settings, name+"/"+model)
		})
	}
}

func askReal(t *testing.T, settings llm.Settings, model string) {
	t.Helper()
	models, err := llm.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	r := weather(t, models, model)
	r.SetInput = func(in *contract.RunInput) { in.Model, in.OnError = model, contract.OnErrorFail }
	r.Prepare = func(env *testsuite.TestWorkflowEnvironment) { env.SetTestTimeout(10 * time.Minute) }
	p := r.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	replies, got := toolReplies(t, p, "reporter#1"), harness.ResultText(p.Result)
	if len(replies) == 0 || !strings.Contains(got, "21") {
		t.Errorf("%d tool calls, result of %s = %q", len(replies), model, got)
	}
	t.Logf("%s, %d tokens in, %d out: %s", model, p.Result.Usage.Input, p.Result.Usage.Output, got)
}

package agentspec_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/specadapter"
)

// TestOCIModels checks that the field provider determines the vendor of a model given as an OCID, which does not name it.
func TestOCIModels(t *testing.T) {
	for _, tc := range []struct{ provider, id, want string }{
		{`"COHERE"`, "ocid1.generativeaiendpoint.oc1.us.a", "oci/cohere/ocid1.generativeaiendpoint.oc1.us.a"},
		{`"COHERE"`, "cohere.command-a-03-2025", "oci/cohere.command-a-03-2025"},
		{`"META"`, "ocid1.generativeaiendpoint.oc1.us.a", "oci/ocid1.generativeaiendpoint.oc1.us.a"},
		{`null`, "meta.llama-3.3-70b-instruct", "oci/meta.llama-3.3-70b-instruct"},
	} {
		doc := fmt.Sprintf(`{"component_type":"Agent","agentspec_version":"25.4.1","name":"a","system_prompt":"x","llm_config":{"component_type":"OciGenAiConfig","name":"m",
"model_id":%q,"provider":%s,"compartment_id":"c","serving_mode":"DEDICATED","client_config":{"component_type":"OciClientConfigWithInstancePrincipal","name":"c","service_endpoint":"https://x.example.com"}}}`, tc.id, tc.provider)
		res, diags := specadapter.Load("f.json", []byte(doc), specadapter.Options{})
		if res == nil {
			t.Fatal(diags)
		}
		got := ""
		for _, n := range res.Flow.Nodes {
			if n.Agent != nil {
				got = n.Agent.Model
			}
		}
		if got != tc.want {
			t.Errorf("%s of %s is %q, want %q", tc.id, tc.provider, got, tc.want)
		}
	}
}

// TestModelAPI checks that a document selects the OpenAI API by which its model is called, or leaves it to the worker.
func TestModelAPI(t *testing.T) {
	const config = `{"component_type":%q,"name":"m","model_id":"gpt-5","url":"https://x.example.com/v1"%s}`
	const agent = `{"component_type":"Agent","agentspec_version":"26.1.2","name":"a","system_prompt":"x","llm_config":%s}`
	const oci = `{"component_type":"OciGenAiConfig","name":"m","model_id":"openai.gpt-5","compartment_id":"c","api_type":%q,"client_config":{"component_type":"OciClientConfigWithInstancePrincipal","name":"c","service_endpoint":"https://x.example.com"}}`
	const remote = `{"component_type":"OpenAiAgent","agentspec_version":"26.1.2","name":"a","llm_config":%s%s}`
	compatible := func(api string) string { return fmt.Sprintf(config, "OpenAiCompatibleConfig", api) }
	openAI := `{"component_type":"OpenAiConfig","name":"m","model_id":"gpt-5","default_generation_parameters":{"top_p":0.5,"user":"u"}}`
	for _, tc := range []struct{ doc, model, params string }{
		{fmt.Sprintf(agent, compatible(``)), "compatible/gpt-5", `null`},
		{fmt.Sprintf(agent, compatible(`,"api_type":"chat_completions"`)), "compatible/gpt-5", `{"api":"chat"}`},
		{fmt.Sprintf(agent, compatible(`,"api_type":"responses"`)), "compatible/gpt-5", `{"api":"responses"}`},
		{fmt.Sprintf(agent, openAI), "openai/gpt-5", `{"top_p":0.5,"extra":{"user":"u"}}`},
		{fmt.Sprintf(agent, fmt.Sprintf(oci, "oci")), "oci/openai.gpt-5", `null`},
		{fmt.Sprintf(agent, fmt.Sprintf(oci, "openai_responses")), "oci/openai.gpt-5", `{"api":"responses"}`},
		{fmt.Sprintf(remote, openAI, ``), "openai/gpt-5", `{"top_p":0.5,"api":"responses","extra":{"user":"u"}}`},
		{fmt.Sprintf(remote, openAI, `,"remote_agent_id":null`), "openai/gpt-5", `{"top_p":0.5,"api":"responses","extra":{"user":"u"}}`},
		{fmt.Sprintf(remote, openAI, `,"remote_agent_id":"pmpt_1"`), "openai/gpt-5", `{"top_p":0.5,"api":"responses","extra":{"prompt":{"id":"pmpt_1"},"user":"u"}}`},
		{fmt.Sprintf(remote, openAI, `,"remote_agent_id":"asst_1"`), "", `"asst_1", which the Responses API does not accept`},
	} {
		res, diags := specadapter.Load("f.json", []byte(tc.doc), specadapter.Options{})
		if res == nil || res.Flow == nil {
			if text := fmt.Sprint(diags); tc.model != "" || !strings.Contains(text, tc.params) {
				t.Errorf("%s: %s", tc.doc, text)
			}
			continue
		}
		for _, n := range res.Flow.Nodes {
			if n.Agent == nil {
				continue
			}
			raw, err := json.Marshal(n.Agent.Params)
			if err != nil || n.Agent.Model != tc.model || string(raw) != tc.params {
				t.Errorf("%s\n%s %s, want %s %s", tc.doc, n.Agent.Model, raw, tc.model, tc.params)
			}
		}
	}
}

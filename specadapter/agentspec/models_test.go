package agentspec_test

import (
	"fmt"
	"testing"

	"weft/specadapter"
)

// An OCID does not tell whose model it is; the field provider does.
func TestModelsOfOracle(t *testing.T) {
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
		found := ""
		for _, n := range res.Flow.Nodes {
			if n.Agent != nil {
				found = n.Agent.Model
			}
		}
		if found != tc.want {
			t.Errorf("%s of %s is %q, want %q", tc.id, tc.provider, found, tc.want)
		}
	}
}

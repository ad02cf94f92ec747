package agentspec_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/specadapter"
	"weft/specadapter/source"
)

// TestSecretAdvice checks that the error for an inline secret names the reference and the setting to use without
// showing the secret, and that the document compiles with the reference.
func TestSecretAdvice(t *testing.T) {
	agent := func(model, tools string) string {
		return `{"component_type":"Agent","agentspec_version":"26.1.2","name":"a","system_prompt":"x","llm_config":` + model + `,"tools":[` + tools + `]}`
	}
	const model = `{"component_type":"OpenAiConfig","name":"m","model_id":"m"}`
	tests := map[string]struct{ doc, ref, setting string }{
		"header":   {agent(model, `{"component_type":"RemoteTool","name":"crm","url":"https://crm.example.com:8443/x","http_method":"GET","sensitive_headers":{"Authorization":SECRET}}`), "crm.sensitive_headers.Authorization", `secrets: {"crm.sensitive_headers.Authorization": {value: "${NAME}", hosts: ["crm.example.com:8443"]}}`},
		"key file": {agent(model, `{"component_type":"MCPTool","name":"t","client_transport":{"component_type":"SSEmTLSTransport","name":"c","url":"https://h/sse","key_file":SECRET,"cert_file":{"$component_ref":"c.cert_file"},"ca_file":{"$component_ref":"c.ca_file"}}}`), "c.key_file", `secrets: {"c.key_file": {value: "${NAME}", hosts: ["h"]}}`},
		"API key":  {agent(`{"component_type":"OpenAiConfig","name":"m","model_id":"m","api_key":SECRET}`, ""), "m.api_key", `providers: {openai: {key_env: NAME}}`},
		"OCI credentials file": {agent(`{"component_type":"OciGenAiConfig","name":"m","model_id":"m","compartment_id":"c","client_config":{"component_type":"OciClientConfigWithApiKey","name":"k","service_endpoint":"https://x","auth_profile":"DEFAULT","auth_file_location":SECRET}}`, ""),
			"k.auth_file_location", `providers: {oci: {auth_file: "/path/of/it"}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res, diags := specadapter.Load("f.json", []byte(strings.Replace(tc.doc, "SECRET", `"canary-1234"`, 1)), specadapter.Options{})
			if all := fmt.Sprint(diags); res != nil || strings.Contains(all, "canary") || !strings.Contains(all, `{"$component_ref": "`+tc.ref+`"}`) || !strings.Contains(all, tc.setting) {
				t.Errorf("plan %v, want %s and %s\n%s", res != nil, tc.ref, tc.setting, all)
			}
			if res, diags = specadapter.Load("f.json", []byte(strings.Replace(tc.doc, "SECRET", `{"$component_ref":"`+tc.ref+`"}`, 1)), specadapter.Options{}); res == nil {
				t.Error(fmt.Sprint(diags))
			}
		})
	}
}

// TestOAuthAdvice checks the advice for a server with OAuth: the login belongs to the worker's connection of the same name.
func TestOAuthAdvice(t *testing.T) {
	doc := []byte(`{"component_type":"Agent","agentspec_version":"26.1.2","name":"a","system_prompt":"x","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"toolboxes":[{"component_type":"MCPToolBox","name":"box","client_transport":{"component_type":"StreamableHTTPTransport","name":"mail","url":"https://mcp.example/mcp",
"auth":{"component_type":"OAuthConfig","name":"o","redirect_uri":"http://localhost:1/cb","scopes":"read send","client":{"component_type":"OAuthClientConfig","name":"c","type":"pre_registered","client_id":{"$component_ref":"c.client_id"}}}}}]}`)
	res, diags := specadapter.Load("f.json", doc, specadapter.Options{})
	const want = `set in weft.yaml: connections: {"mail": {url: "https://mcp.example/mcp", oauth: login, oauth_client_id: ID, oauth_scopes: ["read","send"]}}; then run: worker login mail`
	if res == nil || len(diags) != 1 || diags[0].Code != "oauth" || diags[0].Help != want {
		t.Errorf("plan %v, %v", res != nil, diags)
	}
	res, diags = specadapter.Load("f.json", doc, specadapter.Options{Host: source.Host{Connections: map[string]bool{"mail": true}}})
	if res == nil || len(diags) > 0 || res.Flow.Connections[0].ID != "mail" {
		t.Errorf("with the worker's connection: plan %v, %v", res != nil, diags)
	}
}

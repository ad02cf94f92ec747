package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// ociCase returns the test case of OCI.
func ociCase() providerCase {
	row, _ := rowOf("oci")
	return providerCase{row: row, vendor: fakeOCI{}}
}

func TestOCIServingMode(t *testing.T) {
	e, m := ociCase().start(t, textAnswer("ok"), nil)
	for model, serving := range map[string]object{
		"meta.llama-3.3-70b-instruct":              {"servingType": "ON_DEMAND", "modelId": "meta.llama-3.3-70b-instruct"},
		"ocid1.generativeaimodel.oc1..m":           {"servingType": "ON_DEMAND", "modelId": "ocid1.generativeaimodel.oc1..m"},
		"ocid1.generativeaiendpoint.oc1.us.amaaaa": {"servingType": "DEDICATED", "endpointId": "ocid1.generativeaiendpoint.oc1.us.amaaaa"},
	} {
		m.Name = model
		e.generate(t, m, &Call{Request: wire.Request{Extra: json.RawMessage(`{"verbosity":"LOW"}`)}}, hello())
		checkEqual(t, model, e.sent(t)["servingMode"], serving)
	}
}

func TestOCIErrors(t *testing.T) {
	for status, wantText := range map[int]string{401: "providers.fake.auth", 404: "providers.fake.region and compartment"} {
		_, m := ociCase().start(t, fakeAnswer{}, answer(status, fakeOCI{}.errorBody(status, faultPlain, "Authorization failed or requested resource not found."), "Opc-Request-Id", "opc-42"))
		_, err := ask(t, m, &Call{})
		checkContains(t, failureOf(t, err).Error(), wantText, "policy", "opc-42")
	}
	_, m := ociCase().start(t, fakeAnswer{}, sse(`{"code":"TooManyRequests","message":"slow down"}`))
	_, err := ask(t, m, &Call{})
	checkEqual(t, "class inside a stream", failureOf(t, err).Class, contract.ClassRateLimited)
}

func TestOCIGoogleCallOrder(t *testing.T) {
	e, m := ociCase().start(t, textAnswer("ok"), nil)
	m.Name = "google.gemini-2.5-pro"
	e.generate(t, m, &Call{}, transcriptOf("", user("go"), contract.Message{Role: "assistant", Text: "both", Calls: sampleCalls()[:2]},
		contract.Message{Role: "tool", CallID: "call_1", Name: "get", Text: "1"}, contract.Message{Role: "tool", CallID: "call_2", Name: "put", Text: "2"}, user("and?")))
	var got []string
	for _, turn := range e.lastRequest(t).turns {
		for _, c := range turn.calls {
			got = append(got, "call "+c.ID)
		}
		for _, r := range turn.results {
			got = append(got, "result "+r.id)
		}
	}
	checkEqual(t, "order", got, []string{"call call_1", "result call_1", "call call_2", "result call_2"})
}

func TestOCIMissingCredentials(t *testing.T) {
	b := ociCase()
	e, m := b.start(t, textAnswer("ok"), nil)
	file := ociConfig(t)
	for name, s := range map[string]*signer{
		"no file":     {auth: AuthAPIKey, file: file + "x", profile: "DEFAULT"},
		"no profile":  {auth: AuthAPIKey, file: file, profile: "OTHER"},
		"no token":    {auth: AuthSecurityToken, file: file, profile: "DEFAULT"},
		"no settings": {auth: AuthAPIKey},
	} {
		before := e.calls()
		m.signer = s
		_, err := ask(t, m, &Call{})
		f := failureOf(t, err)
		if f.Class != contract.ClassConnection || e.calls() != before {
			t.Errorf("%s: class %q, %d requests", name, f.Class, e.calls()-before)
		}
		checkContains(t, f.Error(), "no OCI credentials by", ".auth_file")
	}
}

func TestOCISettings(t *testing.T) {
	_, err := Open(Settings{Providers: map[string]ProviderSettings{
		"oci": {Region: "Chicago!", Auth: "password"}, "openai": {Region: "us-chicago-1", Compartment: "c"},
	}})
	checkContains(t, failureOf(t, err).Text, `providers.oci.region: invalid region "Chicago!"`, `providers.oci.auth: unknown method "password"; expected one of api_key`,
		"providers.openai.region: only supported by providers of kind bedrock or oci", "providers.openai.compartment")
	models, err := Open(Settings{Providers: map[string]ProviderSettings{"oci": {Region: "us-chicago-1"}, "far": {Kind: "oci", Compartment: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "address", models.providers["oci"].Base, "https://inference.generativeai.us-chicago-1.oci.oraclecloud.com")
	for ref, wantText := range map[string]string{"oci/m": "providers.oci.compartment", "far/m": "providers.far.region"} {
		_, err := models.get(ref)
		checkContains(t, fmt.Sprint(failureOf(t, err)), wantText)
	}
}

// fakeOCIResponses is OCI's endpoint for OpenAI's Responses API.
type fakeOCIResponses struct {
	fakeOCI
	fakeResponses
}

func (f fakeOCIResponses) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	key, err := f.signed(r, body)
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Opc-Compartment-Id") != "ocid1.compartment.oc1..c" || r.URL.Path != "/v1/openai/v1/responses" {
		return nil, fmt.Errorf("path %s, headers %v", r.URL.Path, r.Header)
	}
	r.URL.Path = "/v1/responses"
	out, err := f.fakeResponses.parse(r, body)
	if err == nil {
		out.key = key
	}
	return out, err
}

func (f fakeOCIResponses) unary(s fakeAnswer) string    { return f.fakeResponses.unary(s) }
func (f fakeOCIResponses) events(s fakeAnswer) []string { return f.fakeResponses.events(s) }
func (f fakeOCIResponses) errorBody(status int, kind, text string) string {
	return f.fakeOCI.errorBody(status, kind, text)
}
func (f fakeOCIResponses) errorEvent(kind, text string) string {
	return f.fakeResponses.errorEvent(kind, text)
}

func TestOCIResponses(t *testing.T) {
	b := ociCase()
	b.vendor, b.model, b.api = fakeOCIResponses{}, "openai.gpt-4.1", wire.APIResponses
	b.row.Params, b.row.ResultImages = nil, true
	for name, test := range map[string]func(*testing.T, providerCase) string{"text": conformText, "calls": conformCalls, "images": conformResultImages, "usage": conformUsage, "broken": conformBrokenStreams} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

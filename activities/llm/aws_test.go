package llm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"weft/activities/contract"
)

// sigV4Header matches an Authorization header of AWS Signature Version 4.
var sigV4Header = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=AKID/(\d{8})/eu-west-1/bedrock/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$`)

// verifySigV4 verifies a request's signature as AWS documents it.
func verifySigV4(r *http.Request, body, secret string) error {
	form := sigV4Header.FindStringSubmatch(r.Header.Get("Authorization"))
	if form == nil {
		return fmt.Errorf("authorization %q", r.Header.Get("Authorization"))
	}
	sum := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	headers := ""
	for _, name := range strings.Split(form[2], ";") {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		headers += name + ":" + strings.TrimSpace(value) + "\n"
	}
	path := strings.ReplaceAll(r.URL.EscapedPath(), "%", "%25") // each segment is escaped twice
	request := strings.Join([]string{r.Method, path, "", headers, form[2], sum(body)}, "\n")
	scope := form[1] + "/eu-west-1/bedrock/aws4_request"
	key := []byte("AWS4" + secret)
	for _, part := range []string{form[1], "eu-west-1", "bedrock", "aws4_request", "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + sum(request)} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	if got := hex.EncodeToString(key); got != form[3] {
		return fmt.Errorf("signature %s, want %s of\n%s", form[3], got, request)
	}
	return nil
}

// conformAWS checks signatures by permanent and temporary access keys.
func conformAWS(t *testing.T, b providerCase) {
	t.Helper()
	for _, token := range []string{"", "session-of-the-test"} {
		var refused error
		var e *endpoint
		e, m := b.start(t, fakeAnswer{}, func(w http.ResponseWriter, r *http.Request) {
			refused = verifySigV4(r, e.bodies[len(e.bodies)-1], "secret-of-the-test")
			if got := r.Header.Get("X-Amz-Security-Token"); got != token {
				refused = fmt.Errorf("token %q", got)
			}
			b.stream(textAnswer("ok"))(w, r)
		})
		m.key, m.region, m.aws = "", "eu-west-1", AWSKeys{ID: "AKID", Secret: "secret-of-the-test", Token: token}
		_, err := ask(t, m, &Call{IdempotencyKey: "k/1"})
		if err != nil || refused != nil {
			t.Errorf("token %q: %v, %v", token, err, refused)
		}
	}
}

// TestBedrockSettings checks that a region selects the base URL, and that errors name missing settings.
func TestBedrockSettings(t *testing.T) {
	keys := AWSKeys{ID: "AKID", Secret: "s"}
	for name, tc := range map[string]struct {
		set            ProviderSettings
		base, wantText string
	}{
		"a region":                     {ProviderSettings{Region: "eu-west-1", Key: "k"}, "https://bedrock-runtime.eu-west-1.amazonaws.com", ""},
		"keys and a region":            {ProviderSettings{Region: "eu-west-1", AWS: keys}, "https://bedrock-runtime.eu-west-1.amazonaws.com", ""},
		"base URL and region":          {ProviderSettings{Region: "eu-west-1", AWS: keys, BaseURL: "https://vpce.example.com"}, "https://vpce.example.com", ""},
		"base URL without region":      {ProviderSettings{Key: "k", BaseURL: "https://vpce.example.com"}, "https://vpce.example.com", ""},
		"signature without region":     {ProviderSettings{AWS: keys, BaseURL: "https://vpce.example.com"}, "", "has no region"},
		"empty":                        {ProviderSettings{}, "", "set providers.bedrock.region, for example to us-east-1"},
		"no key":                       {ProviderSettings{Region: "eu-west-1"}, "", "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the worker's environment"},
		"half of the keys":             {ProviderSettings{Region: "eu-west-1", AWS: AWSKeys{ID: "AKID"}}, "", "has no key"},
		"invalid region":               {ProviderSettings{Region: "EU west"}, "", `invalid region "EU west"; use for example us-east-1`},
		"a region of another provider": {ProviderSettings{Kind: "openai", Region: "eu-west-1"}, "", "only supported by providers of kind bedrock or oci"},
	} {
		models, err := Open(Settings{Providers: map[string]ProviderSettings{"bedrock": tc.set}})
		if err == nil {
			err = models.Ready("bedrock")
		}
		switch {
		case tc.wantText != "":
			if f := contract.FailureOf(err); f == nil || !strings.Contains(f.Error(), tc.wantText) {
				t.Errorf("%s: %v, want %q", name, err, tc.wantText)
			}
		case err != nil || models.providers["bedrock"].Base != tc.base:
			t.Errorf("%s: %v, %q", name, err, models.providers["bedrock"].Base)
		}
	}
}

package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"weft/workflows/plan"
)

// metadataReader records metadata that the library ignores.
type metadataReader struct {
	base http.RoundTripper
	a    *Access
}

func (m *metadataReader) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Content-Type") == "application/json" {
		if err := native(req); err != nil {
			return nil, err
		}
	}
	resp, err := m.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if resp.StatusCode != http.StatusOK || req.Method != http.MethodGet || err != nil {
		return resp, err
	}
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	var doc struct {
		Resource *json.RawMessage `json:"resource"`
	}
	if json.Unmarshal(body, &doc) == nil { // the library reports errors
		if doc.Resource != nil {
			_ = json.Unmarshal(body, &m.a.resource)
		} else {
			_ = json.Unmarshal(body, &m.a.issuer)
		}
	}
	return resp, nil
}

// native adds to a registration that the client runs on the user's machine, which the library omits.
func native(req *http.Request) error {
	form := map[string]any{}
	if err := json.NewDecoder(req.Body).Decode(&form); err != nil {
		return err
	}
	form["application_type"] = "native"
	body, err := json.Marshal(form)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return err
}

// locate finds a resource's metadata: the URL that the server names, if on its own origin; else, unless the well-known URL of the
// resource's path exists, the one of the host.
func (a *Access) locate(ctx context.Context, own *login, c *Challenge) {
	own.Metadata, own.Host = "", ""
	u, err := url.Parse(a.of.URL)
	switch {
	case plan.Origin(c.metadata) == plan.Origin(a.of.URL):
		own.Metadata = c.metadata
		return
	case err != nil || strings.Trim(u.Path, "/") == "":
		return
	}
	host := u.Scheme + "://" + u.Host
	wellKnown := host + "/.well-known/oauth-protected-resource"
	switch {
	case a.exists(ctx, wellKnown+u.EscapedPath()) || !a.exists(ctx, wellKnown):
	case a.resource.Resource == a.of.URL:
		own.Metadata = wellKnown
	default:
		own.Host = host
	}
}

func (a *Access) exists(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

package llm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oracle/oci-go-sdk/v65/common"
	"github.com/oracle/oci-go-sdk/v65/common/auth"

	"weft/activities/contract"
)

// Ways to authenticate at OCI, see [ProviderSettings], with the vendor's SDK.
const (
	AuthAPIKey            = "api_key"
	AuthSecurityToken     = "security_token"
	AuthInstancePrincipal = "instance_principal"
	AuthResourcePrincipal = "resource_principal"
)

// sessionKey begins the id of a key that is a token.
const sessionKey = "ST$"

// auths are the ways to get the keys to sign with: from a file, or as a principal.
var auths = map[string]struct {
	file      func(path, profile, password string) (common.ConfigurationProvider, error)
	principal func() (common.ConfigurationProvider, error)
}{
	AuthAPIKey:            {file: common.ConfigurationProviderFromFileWithProfile},
	AuthSecurityToken:     {file: common.ConfigurationProviderForSessionTokenWithProfile},
	AuthInstancePrincipal: {principal: auth.InstancePrincipalConfigurationProvider},
	AuthResourcePrincipal: {principal: func() (common.ConfigurationProvider, error) { return auth.ResourcePrincipalConfigurationProvider() }},
}

// principalsMu is held while principals are made: the SDK keeps addresses in variables of its package.
var principalsMu sync.Mutex

// signer signs requests. Files are read for every call, because their tokens are renewed by others; principals
// renew themselves.
type signer struct {
	auth, file, profile string

	mu        sync.Mutex
	principal common.ConfigurationProvider
}

// newSigner checks the settings of signing in. It opens no connection and reads no file.
func (o *opener) newSigner(name string, s ProviderSettings) *signer {
	g := &signer{auth: cmp.Or(s.Auth, AuthAPIKey), file: s.AuthFile, profile: cmp.Or(s.AuthProfile, "DEFAULT")}
	if _, known := auths[g.auth]; !known {
		o.problem("providers.%s.auth: %q; want one of %s", name, s.Auth, strings.Join(slices.Sorted(maps.Keys(auths)), ", "))
	}
	return g
}

// provider gives the keys to sign with.
func (g *signer) provider() (common.ConfigurationProvider, error) {
	way := auths[g.auth]
	switch {
	case way.file == nil:
	case g.file == "":
		return nil, errors.New("no file of keys is named")
	default:
		return way.file(g.file, g.profile, "")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.principal != nil {
		return g.principal, nil
	}
	principalsMu.Lock()
	defer principalsMu.Unlock()
	principal, err := way.principal()
	if err == nil {
		g.principal = principal
	}
	return principal, err
}

// sign signs a request. The SDK takes no context and may block; the call's end does not wait for it.
func (g *signer) sign(p *provider, req *http.Request) error {
	type outcome struct {
		header http.Header
		err    error
	}
	signed := req.Clone(req.Context())
	signed.Body, _ = req.GetBody() // a body in memory can always be had again
	signed.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	signed.Header.Set("Content-Length", fmt.Sprint(req.ContentLength))
	done := make(chan outcome, 1)
	go func() {
		keys, err := g.provider()
		if err == nil {
			// A token for a session goes with each request, and is of the service's making.
			if id, failed := keys.KeyID(); failed == nil && strings.HasPrefix(id, sessionKey) {
				p.mask.Add(id[len(sessionKey):])
			}
			err = common.DefaultRequestSigner(keys).Sign(signed)
		}
		done <- outcome{signed.Header, err}
	}()
	select {
	case <-req.Context().Done():
		return req.Context().Err()
	case out := <-done:
		if out.err != nil {
			return g.failure(p, out.err)
		}
		req.Header = out.header
		return nil
	}
}

// failure classifies an error: a principal's service may answer later, a file has to be corrected.
func (g *signer) failure(p *provider, err error) error {
	f := failf(contract.ClassConnection,
		fmt.Sprintf("check profile %s of %s (providers.%s.auth_file, auth_profile), or choose another providers.%s.auth", g.profile, g.file, p.Provider, p.Provider),
		"model %q: no credentials of OCI by %s: %s", p.Ref(), g.auth, p.clean(err.Error()))
	if auths[g.auth].principal != nil {
		f.Class = contract.ClassUnavailable
		f.Remedy = fmt.Sprintf("run the worker where OCI gives it a principal, or choose another providers.%s.auth", p.Provider)
	}
	return f
}

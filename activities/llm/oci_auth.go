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

// Methods of authentication for OCI, see [ProviderSettings].Auth. The vendor's SDK implements them.
const (
	AuthAPIKey            = "api_key"
	AuthSecurityToken     = "security_token"
	AuthInstancePrincipal = "instance_principal"
	AuthResourcePrincipal = "resource_principal"
)

// sessionKeyPrefix is the prefix of key ids that are session tokens.
const sessionKeyPrefix = "ST$"

// authMethods are the sources of signing keys: a file, or a principal.
var authMethods = map[string]struct {
	file      func(path, profile, password string) (common.ConfigurationProvider, error)
	principal func() (common.ConfigurationProvider, error)
}{
	AuthAPIKey:            {file: common.ConfigurationProviderFromFileWithProfile},
	AuthSecurityToken:     {file: common.ConfigurationProviderForSessionTokenWithProfile},
	AuthInstancePrincipal: {principal: auth.InstancePrincipalConfigurationProvider},
	AuthResourcePrincipal: {principal: func() (common.ConfigurationProvider, error) { return auth.ResourcePrincipalConfigurationProvider() }},
}

// principalsMu guards the creation of principals: the SDK stores addresses in package variables.
var principalsMu sync.Mutex

// signer signs requests. Files are read for every call, because other programs renew their tokens; principals renew
// themselves.
type signer struct {
	auth, file, profile string

	mu        sync.Mutex
	principal common.ConfigurationProvider
}

// newSigner validates the authentication settings. It opens no connection and reads no file.
func (o *opener) newSigner(name string, s ProviderSettings) *signer {
	g := &signer{auth: cmp.Or(s.Auth, AuthAPIKey), file: s.AuthFile, profile: cmp.Or(s.AuthProfile, "DEFAULT")}
	if _, known := authMethods[g.auth]; !known {
		o.problem("providers.%s.auth: unknown method %q; expected one of %s", name, s.Auth, strings.Join(slices.Sorted(maps.Keys(authMethods)), ", "))
	}
	return g
}

// provider returns the signing keys.
func (g *signer) provider() (common.ConfigurationProvider, error) {
	method := authMethods[g.auth]
	switch {
	case method.file == nil:
	case g.file == "":
		return nil, errors.New("no configuration file is set")
	default:
		return method.file(g.file, g.profile, "")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.principal != nil {
		return g.principal, nil
	}
	principalsMu.Lock()
	defer principalsMu.Unlock()
	principal, err := method.principal()
	if err == nil {
		g.principal = principal
	}
	return principal, err
}

// sign signs a request. The SDK accepts no context and may block; sign returns when the request's context is done.
func (g *signer) sign(p *provider, req *http.Request) error {
	type outcome struct {
		header http.Header
		err    error
	}
	signed := req.Clone(req.Context())
	signed.Body, _ = req.GetBody() // never fails for a body in memory
	signed.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	signed.Header.Set("Content-Length", fmt.Sprint(req.ContentLength))
	done := make(chan outcome, 1)
	go func() {
		keys, err := g.provider()
		if err == nil {
			// A session token is sent with each request; it is not in the settings.
			if id, failed := keys.KeyID(); failed == nil && strings.HasPrefix(id, sessionKeyPrefix) {
				p.mask.Add(id[len(sessionKeyPrefix):])
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

// failure classifies an error: a principal may become available later, a file must be corrected.
func (g *signer) failure(p *provider, err error) error {
	f := failf(contract.ClassConnection,
		fmt.Sprintf("check profile %s of %s (providers.%s.auth_file, auth_profile), or choose another providers.%s.auth", g.profile, g.file, p.Provider, p.Provider),
		"model %q: no OCI credentials by %s: %s", p.Ref(), g.auth, p.clean(err.Error()))
	switch {
	case authMethods[g.auth].principal != nil:
		f.Class = contract.ClassUnavailable
		f.Remedy = fmt.Sprintf("run the worker where OCI gives it a principal, or choose another providers.%s.auth", p.Provider)
	case g.file == "":
		f.Remedy = fmt.Sprintf("set providers.%s.auth_file, or choose another providers.%s.auth", p.Provider, p.Provider)
	}
	return f
}

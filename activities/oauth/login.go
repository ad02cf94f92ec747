package oauth

import (
	"context"
	"fmt"
	"net/url"

	"github.com/mark3labs/mcp-go/client/transport"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// LogIn logs a user in at a server that denied access with a challenge. authorize has the user open a page and returns
// the parameters of the redirect.
func (a *Access) LogIn(ctx context.Context, refusal *Challenge, redirect string, authorize func(ctx context.Context, page string) (url.Values, error)) error {
	if err := a.load(ctx); err != nil {
		return err
	}
	own := login{Server: a.of.URL, Scopes: a.last.Scopes}
	a.locate(ctx, &own, refusal)
	if _, err := a.handler(own, redirect).GetServerMetadata(ctx); err != nil {
		return a.of.Failure(contract.ClassConnection, "its authorization server cannot be used: "+err.Error(), "check the url, and the server's metadata")
	}
	denied := func(err error) error {
		return a.of.Failure(contract.ClassDenied, textutil.ErrorText(err), fmt.Sprintf("log in again, or register a client and set %s.oauth_client_id in weft.yaml", a.of.Setting))
	}
	a.of.Scopes = a.scopes(merged(own.Scopes, refusal.scopes))
	switch {
	case a.of.ClientID != "":
	case a.of.ClientURL != "" && a.issuer.ByURL:
		own.ClientID = a.of.ClientURL
	default:
		h := a.handler(own, redirect)
		if err := h.RegisterClient(ctx, "weft"); err != nil {
			return denied(err)
		}
		own.ClientID, own.ClientSecret, own.AuthMethod = h.GetClientID(), h.GetClientSecret(), h.GetTokenEndpointAuthMethod()
	}
	h := a.handler(own, redirect)
	verifier, err := transport.GenerateCodeVerifier()
	if err != nil {
		return err
	}
	page, err := h.GetAuthorizationURL(ctx, randomText(), transport.GenerateCodeChallenge(verifier))
	if err != nil {
		return denied(err)
	}
	got, err := authorize(ctx, page)
	if err != nil {
		return err
	}
	iss := got.Get("iss")
	switch {
	case iss != "" && iss != a.issuer.Issuer, iss == "" && a.issuer.NamesOwn:
		return denied(fmt.Errorf("the response is from the issuer %q, expected %q", iss, a.issuer.Issuer))
	case got.Get("error") != "":
		return denied(transport.OAuthError{ErrorCode: got.Get("error"), ErrorDescription: got.Get("error_description")})
	}
	a.last = &own
	if err := h.ProcessAuthorizationResponse(ctx, got.Get("code"), got.Get("state"), verifier); err != nil {
		return denied(err)
	}
	return nil
}

package tool

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"weft/activities/oauth"
	"weft/workflows/plan"
)

// probeTimeout limits the wait for a server to reject a client without a token.
const probeTimeout = 30 * time.Second

func (t *target) oauth() oauth.Connection {
	c := t.conn
	return oauth.Connection{ID: t.id, Tenant: t.tenant, Setting: SettingConnections + "." + t.id, URL: c.URL, How: c.OAuth, ClientID: c.OAuthClientID, ClientSecret: c.OAuthClientSecret,
		ClientURL: c.OAuthClientURL, KeyFile: c.OAuthKeyFile, Scopes: c.OAuthScopes, Logins: t.settings.Logins, Mask: t.settings.Mask, Failure: t.failure, Probe: t.probe}
}

// Login logs a user in at one of the worker's connections, for the tenant of the context's [Caller]. authorize has the user open
// a page and returns the parameters with which the authorization server calls the redirect URL.
func (t *Tools) Login(ctx context.Context, id, redirect string, authorize func(ctx context.Context, page string) (url.Values, error)) error {
	conn, ok := t.settings.Connections[id]
	if !ok || conn.OAuth != oauth.Login {
		return connectionFailure(fmt.Sprintf("no connection %q with a login", id), fmt.Sprintf("set %s.%s.oauth: %s in weft.yaml", SettingConnections, id, oauth.Login))
	}
	at := &target{id: id, kind: plan.ConnectionMCP, tenant: callerOf(ctx).Tenant, conn: conn, settings: &t.settings, secrets: newSecrets(conn)}
	refusal, err := at.refusal(ctx)
	if err != nil {
		return err
	}
	c, err := newHTTPClient(at)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	return c.Transport.(*guard).access.LogIn(ctx, refusal, redirect, authorize)
}

// refusal returns the challenge of a server to a client without a token. It is empty if the server requires no token.
func (t *target) refusal(ctx context.Context) (*oauth.Challenge, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	var first *oauth.Challenge
	at := *t
	at.probe = func(c *oauth.Challenge) {
		mu.Lock()
		defer mu.Unlock()
		first = cmp.Or(first, c)
	}
	s, err := dialMCP(ctx, &at)
	if err == nil {
		_, err = s.list(ctx, nil)
		s.close()
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case first != nil:
		return first, nil
	case err != nil:
		return nil, classify(t, err)
	}
	return &oauth.Challenge{}, nil
}

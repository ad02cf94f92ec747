package agentspec

import (
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
)

// passSecrets passes the secrets in the document to [source.Host], or reports those that have no place.
func (b *builder) passSecrets(secrets []model.Secret) {
	if b.host.PassSecret == nil {
		return
	}
	taken := map[string]string{}
	for i := range secrets {
		s := &secrets[i]
		if s.Inline == "" {
			continue
		}
		l := source.InlineSecret{Ref: s.Ref, Value: s.Inline}
		kind, provider := s.Place()
		where := "the secret " + source.Quote(s.Ref)
		switch kind {
		case model.PlaceKey:
			l.Provider, l.Setting = provider, source.SettingKey
			where = "the key of the provider " + provider
		case model.PlaceAuthFile:
			l.Provider, l.Setting, l.File = provider, source.SettingAuthFile, true
			where = "the file of keys of the provider " + provider
		case model.PlaceNone:
			b.Errorf(s.At, source.CodeSecretInline, s.Setting(), "%s of %s cannot be passed to a worker", s.Field, s.Component)
			continue
		default:
			l.File = strings.HasSuffix(s.Field, "_file")
			if h := s.Host(); h != "" {
				l.Hosts = []string{h}
			}
		}
		before, seen := taken[where]
		if seen && before != s.Inline {
			b.Errorf(s.At, source.CodeSecretInline, s.Advice(), "%s is defined twice with different values", where)
			continue
		}
		taken[where] = s.Inline
		if !seen {
			b.host.PassSecret(l)
		}
	}
}

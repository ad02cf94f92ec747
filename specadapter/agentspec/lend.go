package agentspec

import (
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
)

// lend hands the secrets that stand in the document to who asked for them. Two that would have
// one place at the worker, and one that has none, are errors.
func (b *builder) lend(secrets []model.Secret) {
	if b.host.Lend == nil {
		return
	}
	taken := map[string]string{}
	for i := range secrets {
		s := &secrets[i]
		if s.Inline == "" {
			continue
		}
		l := source.Lent{Ref: s.Ref, Value: s.Inline}
		kind, provider := s.Place()
		where := "the secret " + source.Quote(s.Ref)
		switch kind {
		case model.PlaceKey:
			l.Provider, l.Setting = provider, source.LentKey
			where = "the key of the provider " + provider
		case model.PlaceAuthFile:
			l.Provider, l.Setting, l.File = provider, source.LentAuthFile, true
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
		before, had := taken[where]
		if had && before != s.Inline {
			b.Errorf(s.At, source.CodeSecretInline, s.Advice(), "%s is defined twice with different values", where)
			continue
		}
		taken[where] = s.Inline
		if !had {
			b.host.Lend(l)
		}
	}
}

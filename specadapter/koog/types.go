package koog

// typeIn returns the type of the value that comes to an agent, if all transitions to it agree.
func (b *builder) typeIn(ag *agent) given {
	if known, ok := b.types[ag.name]; ok {
		return known
	}
	if b.types == nil {
		b.types, b.leadsTo = map[string]given{}, map[string][]*transition{}
		for _, t := range b.doc.transitions {
			b.leadsTo[t.to] = append(b.leadsTo[t.to], t)
		}
	}
	b.types[ag.name] = given{} // what a loop brings back is not known yet
	if ag == b.first || ag.inParallel {
		return given{}
	}
	var out given
	for i, t := range b.leadsTo[ag.name] {
		g := b.typeOf(b.doc.byName[t.from])
		if t.pass != nil {
			g = critiqueField(t.pass.Path[len(t.pass.Path)-1])
		}
		if i > 0 && g != out {
			return given{}
		}
		out = g
	}
	b.types[ag.name] = out
	return out
}

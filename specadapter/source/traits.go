package source

// Traits are what documents of a dialect may have beyond a graph. An adapter that has a
// method Traits declares them; the others have none.
type Traits struct {
	// Inputs: flows declare inputs by name and type, and runs of them take params.
	Inputs bool
	// Components: documents refer to components that are in other documents.
	Components bool
	// Values: the input of a run is a typed value, which no text stands for.
	Values bool
	// Files: a flow is a folder, and what lies around its document belongs to it.
	Files bool
	// LastKeyWins: keys may be repeated, and the last one counts.
	LastKeyWins bool
	// Lenient: strings and keys of JSON may lack their quotes, see [ParseLenient].
	Lenient bool
}

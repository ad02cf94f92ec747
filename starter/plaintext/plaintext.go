// Package plaintext makes text from documents, models and tools safe to print on a terminal.
package plaintext

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"weft/activities/textutil"
)

// Line returns s in one line of at most n bytes, without characters that could move the cursor.
func Line(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return textutil.Cut(strings.Join(strings.Fields(s), " "), n)
}

// Lines returns s without characters that could move the cursor, except line breaks and tabs.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// YesNo returns "yes" or "no".
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// ShellQuote quotes an id for a shell, if necessary.
func ShellQuote(id string) string {
	if strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,") == "" && id != "" {
		return id
	}
	return "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
}

// Unprintable reports whether r is not printable ASCII.
func Unprintable(r rune) bool { return r < ' ' || r > '~' }

// Table writes rows as columns under a header, if there is one.
func Table(out io.Writer, header []string, rows [][]string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if header != nil {
		rows = append([][]string{header}, rows...)
	}
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
}

// If returns a formatted text if ok, otherwise "".
func If(ok bool, format string, args ...any) string {
	if !ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

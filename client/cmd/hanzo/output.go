package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// print shows an answer in the format that is wanted.
func (a *app) print(w io.Writer, body []byte) error {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || string(body) == "null" {
		return nil
	}
	v, err := decode(body)
	if err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	if text, ok := v.(string); ok {
		_, err := fmt.Fprintln(w, printable(text))
		return err
	}
	switch a.format() {
	case "name":
		for _, row := range rows(v) {
			if name := row.name(); name != "" {
				if _, err := fmt.Fprintln(w, name); err != nil {
					return err
				}
			}
		}
		return nil
	case "table":
		return table(w, v)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", "  "); err != nil {
		return err
	}
	pretty.WriteByte('\n')
	_, err = pretty.WriteTo(w)
	return err
}

// An object is a JSON object, in the order in which it came.
type object []member

type member struct {
	name  string
	value any
}

func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// name is what other commands know it by.
func (o object) name() string {
	for _, name := range []string{"id", "fileId", "name", "session_id", "ticket", "url", "port", "path"} {
		if v := o.get(name); v != nil {
			return cell(name, v)
		}
	}
	return ""
}

// decode reads a value, which is not nested deeper than encoding/json has it.
func decode(body []byte) (any, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return decodeValue(d)
}

func decodeValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			o = append(o, member{inLine(fmt.Sprint(name)), value})
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

// rows are the objects that an answer is about: those of a list that is all it
// has, or itself.
func rows(v any) []object {
	switch v := v.(type) {
	case object:
		if list, ok := onlyList(v); ok {
			return rows(list)
		}
		return []object{v}
	case []any:
		var out []object
		for _, item := range v {
			if o, ok := item.(object); ok {
				out = append(out, o)
			}
		}
		return out
	}
	return nil
}

func onlyList(o object) ([]any, bool) {
	if len(o) != 1 {
		return nil, false
	}
	list, ok := o[0].value.([]any)
	return list, ok
}

// The columns of sandboxes and of files; of anything else there are all.
var (
	sandboxColumns = []string{"id", "class", "status", "project", "image", "expiresAt"}
	fileColumns    = []string{"type", "mode", "size", "mtime", "name", "target"}
)

func table(w io.Writer, v any) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if o, ok := v.(object); ok {
		if _, isList := onlyList(o); !isList {
			for _, m := range o {
				fmt.Fprintf(t, "%s\t%s\n", m.name, cell(m.name, m.value))
			}
			return t.Flush()
		}
	}
	list := rows(v)
	if len(list) == 0 {
		return nil
	}
	var names []string
	switch first := list[0]; {
	case first.get("kind") == "sandbox":
		names = sandboxColumns
	case first.get("mode") != nil && first.get("mtime") != nil:
		names = fileColumns
	default:
		for _, m := range first {
			names = append(names, m.name)
		}
	}
	fmt.Fprintln(t, strings.ToUpper(strings.Join(names, "\t")))
	for _, row := range list {
		cells := make([]string, len(names))
		for i, name := range names {
			cells[i] = cell(name, row.get(name))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// cell is a value in a table.
func cell(name string, v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.Local().Format(time.DateTime)
		}
		return inLine(v)
	case json.Number:
		if mode, err := v.Int64(); err == nil && name == "mode" {
			return fmt.Sprintf("%04o", mode)
		}
		if seconds, err := v.Int64(); err == nil && strings.HasSuffix(name, "At") && seconds > 0 {
			return time.Unix(seconds, 0).Format(time.DateTime)
		}
		return v.String()
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = cell("", v[i])
		}
		return strings.Join(parts, ", ")
	case object:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = m.name + "=" + cell(m.name, m.value)
		}
		return strings.Join(parts, " ")
	}
	return fmt.Sprint(v)
}

// printable keeps what a sandbox or a server chose from moving a terminal's
// cursor, and from showing text in another order than it has.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			return '\uFFFD'
		}
		return r
	}, s)
}

// inLine is printable for what is to stay in one line.
func inLine(s string) string {
	return strings.NewReplacer("\n", "\uFFFD", "\t", "\uFFFD").Replace(printable(s))
}

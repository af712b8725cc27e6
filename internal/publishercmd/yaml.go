package publishercmd

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/openbot-build/openbot-go/publisher/check"
)

// Bounds of a configuration file, far above what a publisher of some hundred
// apps writes. The YAML reader takes time that grows with the square of each.
const (
	maxLines   = 10_000
	maxTokens  = 50_000 // words and marks, and nodes once aliases are written out
	maxNesting = 32
	maxMembers = 100 // of one mapping
)

// parseYAML parses a configuration file. The error is a yaml.Error, or a
// *tooMuch.
func parseYAML(data []byte) (*ast.File, error) {
	if n := bytes.Count(data, []byte("\n")); n > maxLines {
		return nil, &tooMuch{maxLines + 1, fmt.Sprintf("the file has %d lines; at most %d are read", n, maxLines)}
	}
	marks := 0
	for _, mark := range []string{",", "[", "]", "{", "}"} {
		marks += bytes.Count(data, []byte(mark))
	}
	if marks > maxTokens { // without splitting them
		return nil, &tooMuch{0, fmt.Sprintf("the file has %d brackets and commas; at most %d are read", marks, maxTokens)}
	}
	if err := checkShape(lexer.Tokenize(string(data))); err != nil {
		return nil, err
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, err
	}
	anchors := map[string]int{}
	for _, doc := range tree.Docs {
		if weigh(doc.Body, anchors) > maxTokens {
			return nil, &tooMuch{0, fmt.Sprintf("with its aliases written out the file has more than %d values; use fewer", maxTokens)}
		}
	}
	return tree, nil
}

// tooMuch is a file beyond the bounds.
type tooMuch struct {
	line    int // 0: no certain one
	message string
}

func (e *tooMuch) Error() string { return e.message }

// level is a list or mapping that the reader of tokens stands in.
type level struct {
	column  int // 0 in brackets or braces
	members int
}

// checkShape bounds tokens, nesting and members. It follows the indentation as
// the parser does, but takes time in proportion to the tokens.
func checkShape(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return &tooMuch{0, fmt.Sprintf("the file has %d words and marks; at most %d are read", len(tokens), maxTokens)}
	}
	var levels []level
	inFlow := func() bool { return len(levels) > 0 && levels[len(levels)-1].column == 0 }
	// block enters the list or mapping at a column, and leaves those inside it.
	block := func(column int) {
		for len(levels) > 0 && levels[len(levels)-1].column > column {
			levels = levels[:len(levels)-1]
		}
		if len(levels) == 0 || levels[len(levels)-1].column < column {
			levels = append(levels, level{column: column})
		}
	}
	for i, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			levels = append(levels, level{})
		case token.SequenceEndType, token.MappingEndType:
			if inFlow() {
				levels = levels[:len(levels)-1]
			}
		case token.SequenceEntryType, token.MappingKeyType:
			if !inFlow() {
				block(t.Position.Column)
			}
		case token.MappingValueType:
			if !inFlow() {
				key := t
				if i > 0 && tokens[i-1].Position.Line == t.Position.Line {
					key = tokens[i-1]
				}
				block(key.Position.Column)
			}
			levels[len(levels)-1].members++
		case token.DocumentHeaderType:
			if i > 0 && tokens[i-1].Type != token.CommentType && tokens[i-1].Type != token.DirectiveType {
				return &tooMuch{t.Position.Line, "a second document begins here; a configuration file holds one"}
			}
		}
		switch {
		case len(levels) > maxNesting:
			return &tooMuch{t.Position.Line, fmt.Sprintf("is nested more than %d levels deep", maxNesting)}
		case len(levels) > 0 && levels[len(levels)-1].members > maxMembers:
			return &tooMuch{t.Position.Line, fmt.Sprintf("there are more than %d members in one place", maxMembers)}
		}
	}
	return nil
}

// weigh counts the values under a node with aliases written out, at most one
// more than maxTokens.
func weigh(node ast.Node, anchors map[string]int) int {
	n := 1
	switch node := node.(type) {
	case *ast.MappingNode:
		for _, v := range node.Values {
			n += weigh(v, anchors)
		}
	case *ast.MappingValueNode:
		n += weigh(node.Value, anchors)
	case *ast.SequenceNode:
		for _, v := range node.Values {
			n += weigh(v, anchors)
		}
	case *ast.TagNode:
		n += weigh(node.Value, anchors)
	case *ast.AnchorNode:
		n += weigh(node.Value, anchors)
		anchors[node.Name.GetToken().Value] = n
	case *ast.AliasNode:
		n += anchors[node.Value.GetToken().Value]
	}
	return min(n, maxTokens+1)
}

// yamlFault turns an error of the YAML reader into one line with its place. The
// message of a yaml.Error is asked for first: its Error draws the file.
func (c *configFile) yamlFault(err error) fault {
	f := fault{Finding: check.Finding{Level: check.Fault, Where: c.name}}
	var at yaml.Error
	var much *tooMuch
	switch {
	case errors.As(err, &much):
		f.Message, f.line = much.message, much.line
	case errors.As(err, &at):
		f.Message = at.GetMessage()
		if tok := at.GetToken(); tok != nil && tok.Position != nil {
			f.line = tok.Position.Line
		}
	default:
		f.Message = oneLine(err)
	}
	if f.line > 0 {
		f.Where = fmt.Sprintf("%s:%d", c.name, f.line)
	}
	return f
}

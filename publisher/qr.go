package publisher

import (
	"fmt"
	"html/template"
	"strings"

	"rsc.io/qr"
)

// quiet is the white border that readers need around a code, in modules.
const quiet = 4

// qrCode draws text as an SVG element. Dark runs of a row become one path
// step, so the drawing stays small. label is what a screen reader says.
func qrCode(text, label string) (template.HTML, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", fmt.Errorf("draw QR code: %w", err)
	}
	var path strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			if !code.Black(x, y) {
				continue
			}
			start := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", start+quiet, y+quiet, x-start, x-start)
		}
	}
	size := code.Size + 2*quiet
	return template.HTML(fmt.Sprintf( //nolint:gosec // every part is a number or escaped here
		`<svg class="qr" viewBox="0 0 %[1]d %[1]d" role="img" aria-label="%[2]s" shape-rendering="crispEdges">`+
			`<path fill="#fff" d="M0 0h%[1]dv%[1]dH0z"/><path fill="#000" d="%[3]s"/></svg>`,
		size, template.HTMLEscapeString(label), path.String())), nil
}

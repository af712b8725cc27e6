package accesstoken

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/webtest"
)

// TestVectorsKeySets runs the cases on the keys of a set.
func TestVectorsKeySets(t *testing.T) {
	ran := 0
	for _, file := range webtest.VectorFiles(t, "oauth-vectors.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var set struct {
			Vectors []struct {
				ID, Op, Why string
				Input       struct{ JWKS json.RawMessage }
				Want        json.RawMessage
			}
		}
		if err := json.Unmarshal(data, &set); err != nil {
			t.Fatal(err)
		}
		for _, v := range set.Vectors {
			if v.Op != "jwks.usable" {
				continue
			}
			ran++
			t.Run(v.ID, func(t *testing.T) {
				var want []string
				if err := json.Unmarshal(v.Want, &want); err != nil {
					t.Fatal(err)
				}
				got, err := Usable(v.Input.JWKS)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", v.Why, diff)
				}
			})
		}
	}
	if ran == 0 {
		t.Fatal("no case of jwks.usable")
	}
}

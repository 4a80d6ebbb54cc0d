package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/matryer/is"
)

// TestRefusedUpload has a caller who is in the middle of a large file be told
// why it is refused, whether it had asked before or not.
func TestRefusedUpload(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	is.Equal(d.send(t.Context(), http.MethodPost, "/v1/sandbox/"+d.id+"/fs?path=file", "x").StatusCode, 200)
	content := make([]byte, 16<<20)
	for _, expect := range []string{"", "100-continue"} {
		for range 20 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/sandbox/"+d.id+"/fs?path=file/below",
				io.MultiReader(bytes.NewReader(content))) // of no known length
			is.NoErr(err)
			r.Header.Set("Authorization", "Bearer "+d.key)
			if expect != "" {
				r.Header.Set("Expect", expect)
			}
			client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Second}}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatalf("%q: %v", expect, err)
			}
			var p struct{ Detail string }
			is.NoErr(json.NewDecoder(resp.Body).Decode(&p))
			is.True(resp.StatusCode/100 == 4)
			is.True(p.Detail != "")
			resp.Body.Close()
			client.CloseIdleConnections()
		}
	}
}

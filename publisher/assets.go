package publisher

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
)

const assetsDir = "/assets/"

// maxAsset bounds one asset; larger files do not belong on an app's page.
const maxAsset = 16 << 20

// assetTypes are the files that are served, and as what. Everything else is
// not found: an HTML file of somebody else's must not run on this origin.
var assetTypes = map[string]string{
	".png":  "image/png",
	".jpg":  "image/jpeg",
	".jpeg": "image/jpeg",
	".webp": "image/webp",
	".avif": "image/avif",
	".gif":  "image/gif",
	".ico":  "image/x-icon",
	".svg":  "image/svg+xml",
}

// assetCSP keeps an SVG from running scripts or loading anything when somebody
// opens it as a document of its own (OB-12, OB-T12).
const assetCSP = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// assets serves icons and previews of one app.
type assets struct {
	files        fs.FS
	cacheControl string
	etags        sync.Map // name -> tag, of files that have no time: embedded ones never change
}

// ServeHTTP serves the file that follows the last "/assets/" of the path; there
// are no folders below it.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	escaped := r.URL.EscapedPath()
	name, err := url.PathUnescape(escaped[strings.LastIndex(escaped, assetsDir)+len(assetsDir):])
	contentType, known := assetType(name)
	if err != nil || !known {
		notFound(w, r)
		return
	}
	if !allowRead(w, r) {
		return
	}
	f, info, err := openAsset(a.files, name)
	if err != nil {
		notFound(w, r)
		return
	}
	defer f.Close()
	content, err := a.content(name, f, info, w.Header())
	if err != nil {
		http.Error(w, "this file cannot be read now", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	setCORS(h)
	h.Set("Cache-Control", a.cacheControl)
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", assetCSP)
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", info.ModTime(), content)
}

// CheckAsset tells why App.Assets would not serve the file of that name, as it
// stands under /apps/{slug}/assets/ and not escaped. Nil says that it is served.
// It opens the file; New opens none.
func CheckAsset(files fs.FS, name string) error {
	if _, known := assetType(name); !known {
		return errors.New("is no picture that is served: PNG, JPEG, WebP, AVIF, GIF, ICO or SVG, told by the end of its name, and in no folder below")
	}
	f, _, err := openAsset(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no such file")
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func assetType(name string) (contentType string, known bool) {
	contentType, known = assetTypes[strings.ToLower(path.Ext(name))]
	return contentType, known && fs.ValidPath(name) && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, `/\`)
}

// openAsset opens a file that may be served.
func openAsset(files fs.FS, name string) (fs.File, fs.FileInfo, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("is no file")
	case info.Size() > maxAsset:
		err = fmt.Errorf("is larger than %d bytes", maxAsset)
	default:
		return f, info, nil
	}
	f.Close()
	return nil, nil, err
}

// content gives the bytes to serve. A file without a time gets a tag from its
// bytes, so that it can be asked for conditionally too.
func (a *assets) content(name string, f fs.File, info fs.FileInfo, h http.Header) (io.ReadSeeker, error) {
	seeker, ok := f.(io.ReadSeeker)
	tag, tagged := a.etags.Load(name)
	if ok && (tagged || !info.ModTime().IsZero()) {
		if tagged {
			h.Set("ETag", tag.(string))
		}
		return seeker, nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxAsset+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxAsset {
		return nil, errors.New("file grew while it was read")
	}
	if info.ModTime().IsZero() {
		sum := sha256.Sum256(data)
		tag := `"` + hex.EncodeToString(sum[:16]) + `"`
		a.etags.Store(name, tag)
		h.Set("ETag", tag)
	}
	return bytes.NewReader(data), nil
}

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// registry is a package index for pip (PEP 503) and a registry for npm on
// loopback, with packages that hold one file each.
type registry struct {
	*httptest.Server
	mutex    sync.Mutex
	requests int
	wheels   map[string][]byte // by file name
	npm      map[string]map[string][]byte
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{wheels: map[string][]byte{}, npm: map[string]map[string][]byte{}}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /simple/{name}/", r.serveLinks)
	routes.HandleFunc("GET /wheels/{file}", r.serveWheel)
	routes.HandleFunc("GET /npm/{name...}", r.serveNPM)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mutex.Lock()
		r.requests++
		r.mutex.Unlock()
		routes.ServeHTTP(w, request)
	}))
	t.Cleanup(r.Close)
	return r
}

// env lets both installers use the registry.
func (r *registry) env() []string {
	return []string{"PIP_INDEX_URL=" + r.URL + "/simple/", "npm_config_registry=" + r.URL + "/npm/"}
}

func (r *registry) seen() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.requests
}

func normalized(name string) string {
	return strings.ToLower(regexp.MustCompile(`[-_.]+`).ReplaceAllString(name, "-"))
}

// addWheel publishes a Python package with the given files.
func (r *registry) addWheel(t *testing.T, name, version string, files map[string]string, requires ...string) {
	t.Helper()
	distribution := strings.ReplaceAll(normalized(name), "-", "_")
	info := distribution + "-" + version + ".dist-info/"
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	for _, required := range requires {
		metadata += "Requires-Dist: " + required + "\n"
	}
	all := map[string]string{
		info + "METADATA": metadata,
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	}
	record := info + "RECORD,,\n"
	for name, content := range files {
		all[name] = content
	}
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for name, content := range all {
		record += name + ",,\n"
		writeZip(t, archive, name, content)
	}
	writeZip(t, archive, info+"RECORD", record)
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	r.wheels[distribution+"-"+version+"-py3-none-any.whl"] = packed.Bytes()
}

func writeZip(t *testing.T, archive *zip.Writer, name, content string) {
	t.Helper()
	entry, err := archive.Create(name)
	if err == nil {
		_, err = entry.Write([]byte(content))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r *registry) serveLinks(w http.ResponseWriter, request *http.Request) {
	found := false
	for file := range r.wheels {
		if name, _, _ := strings.Cut(file, "-"); normalized(name) == request.PathValue("name") {
			if !found {
				w.Header().Set("Content-Type", "text/html")
			}
			found = true
			fmt.Fprintf(w, "<a href=\"/wheels/%s\">%s</a>\n", file, file)
		}
	}
	if !found {
		http.NotFound(w, request)
	}
}

func (r *registry) serveWheel(w http.ResponseWriter, request *http.Request) {
	if content, found := r.wheels[request.PathValue("file")]; found {
		_, _ = w.Write(content)
		return
	}
	http.NotFound(w, request)
}

// addNPM publishes a Node package; package.json is filled in.
func (r *registry) addNPM(t *testing.T, name, version string, files map[string]string, manifest map[string]any) {
	t.Helper()
	described := map[string]any{"name": name, "version": version, "type": "module", "exports": "./index.js"}
	for key, value := range manifest {
		described[key] = value
	}
	encoded, err := json.Marshal(described)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	writeTar(t, archive, "package/package.json", string(encoded))
	for path, content := range files {
		writeTar(t, archive, "package/"+path, content)
	}
	if archive.Close() != nil || zipped.Close() != nil {
		t.Fatal("packing")
	}
	if r.npm[name] == nil {
		r.npm[name] = map[string][]byte{}
	}
	r.npm[name][version] = packed.Bytes()
}

func writeTar(t *testing.T, archive *tar.Writer, name, content string) {
	t.Helper()
	err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = archive.Write([]byte(content))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serveNPM serves NAME and, below it, the archives NAME/-/VERSION.tgz.
func (r *registry) serveNPM(w http.ResponseWriter, request *http.Request) {
	name, file, isArchive := strings.Cut(request.PathValue("name"), "/-/")
	versions, found := r.npm[name]
	if !found {
		http.NotFound(w, request)
		return
	}
	if isArchive {
		_, _ = w.Write(versions[strings.TrimSuffix(path.Base(file), ".tgz")])
		return
	}
	packument := map[string]any{"name": name}
	described, latest := map[string]any{}, ""
	for version, archive := range versions {
		sum := sha512.Sum512(archive)
		latest = max(latest, version)
		described[version] = map[string]any{"name": name, "version": version, "dist": map[string]any{
			"tarball":   r.URL + "/npm/" + name + "/-/" + version + ".tgz",
			"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		}}
	}
	packument["versions"], packument["dist-tags"] = described, map[string]string{"latest": latest}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(packument)
}

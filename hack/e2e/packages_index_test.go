package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// packageIndex is an npm registry and a pip index (PEP 503) on the host's loopback,
// with packages of one file each. Guests need no internet to install them.
type packageIndex struct {
	server *httptest.Server
	// tarballs are npm's, by package and version; archives are pip's, by file name.
	tarballs map[string]map[string][]byte
	archives map[string][]byte
}

// startPackageIndex serves until the end of the suite what is published before the
// first request.
func startPackageIndex() *packageIndex {
	GinkgoHelper()
	index := &packageIndex{tarballs: map[string]map[string][]byte{}, archives: map[string][]byte{}}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /npm/{name}", index.describeNPM)
	routes.HandleFunc("GET /npm/{name}/-/{version}", index.sendTarball)
	routes.HandleFunc("GET /pip/{name}/", index.linkArchives)
	routes.HandleFunc("GET /archives/{file}", index.sendArchive)
	index.server = httptest.NewServer(routes)
	DeferCleanup(index.server.Close)
	return index
}

func (p *packageIndex) port() int { return p.server.Listener.Addr().(*net.TCPAddr).Port }

// npmURL and pipURL are what a spec names; the daemon leads a guest from the host's
// loopback to its gateway.
func (p *packageIndex) npmURL() string { return p.server.URL + "/npm/" }
func (p *packageIndex) pipURL() string { return p.server.URL + "/pip/" }

// publishNPM adds a package; a script runs when it is installed.
func (p *packageIndex) publishNPM(name, version, source, script string) {
	GinkgoHelper()
	manifest := map[string]any{"name": name, "version": version, "type": "module", "exports": "./index.js"}
	if script != "" {
		manifest["scripts"] = map[string]string{"install": script}
	}
	described, err := json.Marshal(manifest)
	Expect(err).NotTo(HaveOccurred())
	if p.tarballs[name] == nil {
		p.tarballs[name] = map[string][]byte{}
	}
	p.tarballs[name][version] = packTar(map[string]string{"package/package.json": string(described), "package/index.js": source})
}

// publishWheel adds a package of one module.
func (p *packageIndex) publishWheel(name, version, source string) {
	GinkgoHelper()
	info := name + "-" + version + ".dist-info/"
	files := map[string]string{
		name + ".py":      source,
		info + "METADATA": fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version),
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: e2e\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	}
	record := info + "RECORD,,\n"
	for file := range files {
		record += file + ",,\n"
	}
	files[info+"RECORD"] = record
	p.archives[name+"-"+version+"-py3-none-any.whl"] = packZip(files)
}

// publishSource adds a package that is built where it is installed, by a back end of
// its own, which needs nothing else.
func (p *packageIndex) publishSource(name, version, backend string) {
	GinkgoHelper()
	folder := name + "-" + version + "/"
	p.archives[name+"-"+version+".tar.gz"] = packTar(map[string]string{
		folder + "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
		folder + "backend.py":     backend,
		folder + "PKG-INFO":       fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version),
	})
}

func packTar(files map[string]string) []byte {
	GinkgoHelper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for name, content := range files {
		Expect(archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})).To(Succeed())
		Expect(archive.Write([]byte(content))).Error().NotTo(HaveOccurred())
	}
	Expect(archive.Close()).To(Succeed())
	Expect(zipped.Close()).To(Succeed())
	return packed.Bytes()
}

func packZip(files map[string]string) []byte {
	GinkgoHelper()
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for name, content := range files {
		entry, err := archive.Create(name)
		Expect(err).NotTo(HaveOccurred())
		Expect(entry.Write([]byte(content))).Error().NotTo(HaveOccurred())
	}
	Expect(archive.Close()).To(Succeed())
	return packed.Bytes()
}

// describeNPM lists the versions of a package, with addresses as the guest sees this
// server.
func (p *packageIndex) describeNPM(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	versions, latest := map[string]any{}, ""
	for version, tarball := range p.tarballs[name] {
		latest = max(latest, version)
		sum := sha512.Sum512(tarball)
		described := map[string]any{"name": name, "version": version, "dist": map[string]string{
			"tarball":   "http://" + path.Join(r.Host, "npm", name, "-", version),
			"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		}}
		if version == brokenVersion {
			described["hasInstallScript"] = true
		}
		versions[version] = described
	}
	if latest == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"name": name, "versions": versions, "dist-tags": map[string]string{"latest": latest},
	})
}

func (p *packageIndex) sendTarball(w http.ResponseWriter, r *http.Request) {
	send(w, r, p.tarballs[r.PathValue("name")][r.PathValue("version")])
}

func (p *packageIndex) sendArchive(w http.ResponseWriter, r *http.Request) {
	send(w, r, p.archives[r.PathValue("file")])
}

func send(w http.ResponseWriter, r *http.Request, content []byte) {
	if content == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content)
}

// linkArchives answers with a page of links, empty for a package that is not there.
func (p *packageIndex) linkArchives(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	for file := range p.archives {
		// pip asks for the normalized name.
		if strings.HasPrefix(strings.ReplaceAll(file, "_", "-"), r.PathValue("name")+"-") {
			_, _ = fmt.Fprintf(w, "<a href=\"/archives/%s\">%s</a>\n", file, file)
		}
	}
}

package stack

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// credentials are the tokens and keys of one control plane. They live in its
// state folder, which only the user may read, and go with it.
type credentials struct {
	dir string
	// admin is of the group system:masters.
	admin string
	// operator is the token of the operator's service account: a fixed one, since
	// a requested one would have to be renewed.
	operator string
}

func (c credentials) publicKey() string   { return filepath.Join(c.dir, "sa.pub") }
func (c credentials) privateKey() string  { return filepath.Join(c.dir, "sa.key") }
func (c credentials) tokens() string      { return filepath.Join(c.dir, "tokens.csv") }
func (c credentials) certificate() string { return filepath.Join(c.dir, "apiserver.crt") }

// makeCredentials writes the key pair that signs service account tokens, and
// the token file with an administrator and the operator.
func makeCredentials(dir string, account serviceAccount) (credentials, error) {
	c := credentials{dir: dir, admin: rand.Text(), operator: rand.Text()}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return c, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return c, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return c, err
	}
	files := map[string][]byte{
		c.privateKey(): pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		c.publicKey():  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		c.tokens(): fmt.Appendf(nil, "%s,admin,admin,system:masters\n%s,%s,operator,\"%s\"\n",
			c.admin, c.operator, account.userName(), account.groups()),
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return c, err
		}
	}
	return c, nil
}

// serviceAccount is the identity that the operator has in a cluster.
type serviceAccount struct{ namespace, name string }

func (a serviceAccount) userName() string {
	return "system:serviceaccount:" + a.namespace + ":" + a.name
}

func (a serviceAccount) groups() string {
	return "system:serviceaccounts,system:serviceaccounts:" + a.namespace
}

// writeKubeconfig writes a configuration with one user, readable by its owner
// only, in one step, because tools may be watching the file.
func writeKubeconfig(path, server, certificate, token, namespace string) error {
	authority, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	const name = "sandbox-operator"
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []any{map[string]any{"name": name, "cluster": map[string]any{
			"server": server, "certificate-authority-data": base64.StdEncoding.EncodeToString(authority),
		}}},
		"users": []any{map[string]any{"name": name, "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{
			"cluster": name, "user": name, "namespace": namespace,
		}}},
		"current-context": name,
	})
	if err != nil {
		return err
	}
	return writeFile(path, text)
}

func writeFile(path string, content []byte) error {
	staged := path + ".new"
	if err := os.WriteFile(staged, content, 0o600); err != nil {
		return err
	}
	return os.Rename(staged, path)
}

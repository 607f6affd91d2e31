package shim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

func many(n int, entry func(i int) string) string {
	var list []string
	for i := range n {
		list = append(list, entry(i))
	}
	return strings.Join(list, ",")
}

func TestInput_refusals(t *testing.T) {
	number := func(i int) string { return fmt.Sprintf(`"%d"`, i) }
	variable := func(i int) string { return fmt.Sprintf(`"V%d":"1"`, i) }
	file := func(i int) string { return fmt.Sprintf(`{"path":"f%d","content":"1"}`, i) }
	cases := map[string]struct{ fields, want string }{
		"stdin is a number":                  {`"stdin":1`, "stdin must be a string"},
		"stdin is too large":                 {`"stdin":"` + strings.Repeat("x", 128<<10+1) + `"`, "stdin has 131073 bytes; the limit is 131072"},
		"args is a string":                   {`"args":"a"`, "args must be a list of strings"},
		"args has a number":                  {`"args":["a",1]`, "args[1] must be a string"},
		"too many args":                      {`"args":[` + many(65, number) + `]`, "args has 65 entries; the limit is 64"},
		"an arg is too long":                 {`"args":["` + strings.Repeat("x", 4097) + `"]`, "args[0] has 4097 bytes"},
		"env is a list":                      {`"env":["A=1"]`, "env must be an object of strings"},
		"env has a number":                   {`"env":{"A":1}`, "env.A must be a string"},
		"env has null":                       {`"env":{"A":null}`, "env.A must be a string"},
		"env of the worker":                  {`"env":{"III_URL":"x"}`, "names that begin with III_ belong to this worker"},
		"env has no name":                    {`"env":{"1A":"x"}`, `env has the name "1A"`},
		"an env value is too long":           {`"env":{"A":"` + strings.Repeat("x", 8193) + `"}`, "env.A has 8193 bytes"},
		"too many variables":                 {`"env":{` + many(65, variable) + `}`, "env has 65 variables"},
		"files is an object":                 {`"files":{"a":"b"}`, "files must be a list of objects"},
		"a file lacks its path":              {`"files":[{"content":"1"}]`, "files[0]: path is missing"},
		"a file lacks its content":           {`"files":[{"path":"a"}]`, "files[0]: content is missing"},
		"a file is a string":                 {`"files":["a"]`, "files[0]: the payload must be a JSON object"},
		"a path leads out":                   {`"files":[{"path":"../a","content":"1"}]`, "empty, . or .. segment"},
		"a path names a folder":              {`"files":[{"path":"a/","content":"1"}]`, "empty, . or .. segment"},
		"a path is empty":                    {`"files":[{"path":"","content":"1"}]`, "path of 0 bytes"},
		"a path is there twice":              {`"files":[{"path":"a","content":"1"},{"path":"a","content":"2"}]`, `the path "a" twice`},
		"a mode is no mode":                  {`"files":[{"path":"a","content":"1","mode":"rwx"}]`, `mode "rwx"; it must be octal`},
		"a file is too large":                {`"files":[{"path":"a","content":"` + strings.Repeat("x", 32<<10+1) + `"}]`, "has 32769 bytes; the limit is 32768"},
		"too many files":                     {`"files":[` + many(65, file) + `]`, "files has 65 entries"},
		"packages is a string":               {`"packages":"left-pad"`, "packages must be a list of strings"},
		"a package is an address":            {`"packages":["git+https://x"]`, `packages has "git+https://x"`},
		"a package is an option":             {`"packages":["--index-url=x"]`, `packages has "--index-url=x"`},
		"too many packages":                  {`"packages":[` + many(65, number) + `]`, "packages has 65 entries"},
		"packages in a kept runtime":         {`"runtime_id":"rt-x","packages":["a"]`, "leave them out with runtime_id"},
		"all together are too much":          {`"files":[` + many(7, func(i int) string { return fmt.Sprintf(`{"path":"f%d","content":%q}`, i, strings.Repeat("x", 32<<10)) }) + `]`, "the limit for all together is 196608"},
		"escapes count, for they are stored": {`"stdin":"` + strings.Repeat(`\u0001`, 40<<10) + `"`, "the limit for all together is 196608"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			wantText(t, w.callError("run", `{"code":"1","lang":"node",`+tc.fields+`}`), "invalid_request: ", tc.want)
			if diff := cmp.Diff([]string{}, w.wrote()); diff != "" {
				t.Errorf("a refused run wrote (-want +got):\n%s", diff)
			}
		})
	}
}

const everyInput = `"stdin":"in","args":["a","b"],"env":{"B":"2","A":"1"},"files":[{"path":"d/x.sh","content":"x","mode":"0755"},{"path":"/tmp/y","content":""}]`

func wantInput(t *testing.T, spec v1alpha1.SandboxRunSpec) {
	t.Helper()
	got := v1alpha1.SandboxRunSpec{Stdin: spec.Stdin, Args: spec.Args, Env: spec.Env, Files: spec.Files}
	want := v1alpha1.SandboxRunSpec{
		Stdin: "in", Args: []string{"a", "b"},
		Env: []v1alpha1.EnvVar{{Name: "A", Value: ptr.To("1")}, {Name: "B", Value: ptr.To("2")}},
		Files: []v1alpha1.File{
			{Path: "d/x.sh", Content: ptr.To("x"), Mode: "0755"}, {Path: "/tmp/y", Content: ptr.To("")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
}

func TestInput(t *testing.T) {
	w := newWorld(t)
	w.mustCall("run", `{"code":"1","lang":"node","packages":["left-pad@^1.3"],`+everyInput+`}`)
	id := w.keep(`{"code":"1","lang":"python","keep":true,"packages":["requests>=2,<3"],` + everyInput + `}`)
	w.mustCall("run", `{"code":"1","runtime_id":"`+id+`",`+everyInput+`}`)
	runs := w.results.all()
	for _, run := range runs {
		wantInput(t, run.spec)
	}
	if diff := cmp.Diff([]string{"left-pad@^1.3"}, runs[0].spec.Runtime.Packages); diff != "" {
		t.Errorf("packages of the run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"requests>=2,<3"}, w.runtimes()[0].Spec.Packages); diff != "" {
		t.Errorf("packages of the kept runtime (-want +got):\n%s", diff)
	}
	w.mustCall("run", `{"code":"1","lang":"node","stdin":null,"args":null,"env":null,"files":null,"packages":null}`)
	if last := w.results.all()[3].spec; last.Stdin != "" || last.Args != nil || last.Env != nil || last.Files != nil {
		t.Errorf("null became %+v", last)
	}
}

func TestRegister_additions(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", registration("shop::plain", "timeout_ms", 60_000,
		"request_format", map[string]any{"type": "object"}, "response_format", map[string]any{"type": "number"}))
	w.mustCall("register_function", registration("shop::own", "packages", []string{"left-pad"}, "env", map[string]any{"A": "1"},
		"files", []any{map[string]any{"path": "/data/x", "content": "x"}}))
	own, plain := w.functions()[0].Spec, w.functions()[1].Spec
	if plain.Language != v1alpha1.LanguageNode || plain.Runtime != nil || *plain.TimeoutMilliseconds != 30_000 ||
		string(plain.RequestSchema.Raw) != `{"type":"object"}` || string(plain.ResponseSchema.Raw) != `{"type":"number"}` || plain.SchemaPolicy != "" {
		t.Errorf("function %+v", plain)
	}
	want := &v1alpha1.FunctionRuntime{Language: v1alpha1.LanguageNode, GuestSpec: v1alpha1.GuestSpec{
		Network: v1alpha1.AccessEnabled, BusAccess: v1alpha1.AccessEnabled, Packages: []string{"left-pad"},
		Env:   []v1alpha1.EnvVar{{Name: "A", Value: ptr.To("1")}},
		Files: []v1alpha1.File{{Path: "/data/x", Content: ptr.To("x")}},
	}}
	if diff := cmp.Diff(want, own.Runtime); diff != "" || own.Language != "" || own.TimeoutMilliseconds != nil || own.RequestSchema != nil {
		t.Errorf("function %+v (-want +got):\n%s", own, diff)
	}
}

func TestRegister_additionsRefused(t *testing.T) {
	large := `{"type":"object","description":"` + strings.Repeat("x", 16<<10) + `"}`
	cases := map[string]struct{ fields, want string }{
		"a format is a string":     {`"request_format":"object"`, "request_format must be a JSON object"},
		"a format allows anything": {`"response_format":{"title":"x","$schema":"y"}`, "response_format allows every value"},
		"a format is empty":        {`"request_format":{}`, "request_format allows every value"},
		"a format is too large":    {`"request_format":` + large, "the limit is 16384"},
		"replace is null":          {`"replace":null`, "replace must be true or false"},
		"a negative timeout":       {`"timeout_ms":-1`, "timeout_ms must be a whole number"},
		"a relative path":          {`"files":[{"path":"a","content":"1"}]`, "it must be absolute"},
		"env of the worker":        {`"env":{"III_X":"1"}`, "III_"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			text := w.callError("register_function", `{"function_id":"a::b","source":"1","lang":"node",`+tc.fields+`}`)
			wantText(t, text, "invalid_request: ", tc.want)
			if diff := cmp.Diff([]string{}, w.wrote()); diff != "" {
				t.Errorf("a refused registration wrote (-want +got):\n%s", diff)
			}
		})
	}
}

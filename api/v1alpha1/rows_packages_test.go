package v1alpha1_test

import "slices"

// packageRows are about the packages of npm and pip. The agent's own rule is
// wire.CheckRequirement, which packages_test.go compares.
func packageRows() []row {
	network := set("network", "Enabled")
	return slices.Concat(
		at(guests("Node"), func() []row {
			return []row{
				takes("packages of npm", network, set("packages", `["left-pad@^1.3", "@scope/name", "a@1.x || >=2.0.0 <3", "x"]`)),
				takes("64 packages of 256 characters", network, manyTexts("packages", 64, long(256))),
				refuses("packages without a network", says("spec.packages", "needs network: Enabled"), set("packages", "[left-pad]")),
				refuses("packages with the network off", says("spec.packages", "needs network: Enabled"), set("network", "Disabled"), set("packages", "[left-pad]")),
				refuses("packages of pip", says("spec.packages", "npm: name or name@range"), network, set("packages", `["requests>=2,<3"]`)),
				refuses("upper case in a package of npm", says("spec.packages", "npm: name or name@range"), network, set("packages", "[Left-Pad]")),
				refuses("an alias of npm", says("spec.packages", "npm: name or name@range"), network, set("packages", `["a@npm:b@1"]`)),
				refuses("a package from a repository", says("spec.packages", "npm: name or name@range"), network, set("packages", "[user/repo]")),
				refuses("a package from an address", says("spec.packages", "not addresses"), network, set("packages", `["git+https://example.org/x"]`)),
				refuses("an option instead of a package", says("spec.packages[0]", "should match"), network, set("packages", `["--index-url=x"]`)),
				refuses("a path instead of a package", says("spec.packages[0]", "should match"), network, set("packages", "[./x]")),
				refuses("a second option behind a line break", says("spec.packages[0]", "should match"), network, set("packages", `["x\n--index-url=y"]`)),
				refuses("a package in another script", says("spec.packages[0]", "should match"), network, set("packages", "[лефт-пад]")),
				refuses("an empty package", says("spec.packages[0]", "at least 1"), network, set("packages", `[""]`)),
				refuses("a package of 257 characters", says("spec.packages[0]", "256"), network, manyTexts("packages", 1, long(257))),
				refuses("65 packages", says("spec.packages", "64"), network, manyTexts("packages", 65, "x")),
			}
		}),
		at(guests("Python"), func() []row {
			return []row{
				takes("packages of pip", network, set("packages", `["requests>=2,<3", "uvicorn[standard] ~= 0.30", "Pillow", "a===1.0", "x"]`)),
				takes("64 long packages of pip", network, manyTexts("packages", 64, "a=="+long(253))),
				refuses("packages of npm", says("spec.packages", "pip: name, name[extra] or name==version"), network, set("packages", `["left-pad@^1.3"]`)),
				refuses("a scope of npm", says("spec.packages", "pip: name, name[extra] or name==version"), network, set("packages", `["@scope/name"]`)),
				refuses("a marker", says("spec.packages", "pip: name, name[extra] or name==version"), network, set("packages", `["x; python_version < '4'"]`)),
				refuses("a package at an address", says("spec.packages", "not addresses"), network, set("packages", `["x @ file:/tmp/x"]`)),
			}
		}),
	)
}

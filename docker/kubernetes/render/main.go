// Renders a Helm chart without Helm: what `helm template` makes of the part of Helm that our chart
// uses, which is Go's text/template, the functions of sprig, and include, required, tpl, toYaml,
// fromYaml, .Files, .Values, .Chart, .Release and .Capabilities. Hooks, subcharts and lookup are not
// there, and values.schema.json is for others to check.
//
//	render [-f VALUES.yaml]... [-namespace NAME] [-kube-version 1.32.0] [-notes] CHART RELEASE
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/semver"
	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

// The chart's files that are no templates, as .Files.
type files map[string][]byte

func (f files) Get(name string) string { return string(f[name]) }

func (f files) Glob(pattern string) (files, error) {
	found := files{}
	for name, content := range f {
		matches, err := path.Match(pattern, name)
		if err != nil {
			return nil, fmt.Errorf("glob %q: %w", pattern, err)
		}
		if matches {
			found[name] = content
		}
	}
	return found, nil
}

// Every file below a directory, by its path in it; links are followed, as Helm does.
func readTree(directory, prefix string, into files) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		where := filepath.Join(directory, entry.Name())
		info, err := os.Stat(where)
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = readTree(where, prefix+entry.Name()+"/", into)
		} else if into[prefix+entry.Name()], err = os.ReadFile(where); err == nil && info.Size() > 1<<20 {
			err = fmt.Errorf("%s: %d bytes are more than a ConfigMap holds", where, info.Size())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What `over` says wins, key by key; its nulls remove.
func merge(base, over object) object {
	for key, value := range over {
		below, isObject := value.(object)
		under, wasObject := base[key].(object)
		switch {
		case value == nil:
			delete(base, key)
		case isObject && wasObject:
			base[key] = merge(under, below)
		default:
			base[key] = value
		}
	}
	return base
}

func parse(content []byte, name string) (object, error) {
	read := object{}
	if err := yaml.UnmarshalStrict(content, &read); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return read, nil
}

func toYaml(value interface{}) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(text), "\n"), err
}

func functions(templates *template.Template) template.FuncMap {
	all := sprig.TxtFuncMap()
	delete(all, "env")
	delete(all, "expandenv")
	all["toYaml"] = toYaml
	all["fromYaml"] = func(text string) (object, error) { return parse([]byte(text), "fromYaml") }
	all["required"] = func(complaint string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(complaint)
		}
		return value, nil
	}
	all["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := templates.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	all["tpl"] = func(text string, data interface{}) (string, error) {
		copied, err := templates.Clone()
		if err == nil {
			copied, err = copied.New("tpl").Parse(text)
		}
		var rendered strings.Builder
		if err == nil {
			err = copied.Execute(&rendered, data)
		}
		return rendered.String(), err
	}
	return all
}

// A chart's metadata has capitals in templates: .Chart.AppVersion.
func capitals(chart object) object {
	named := object{}
	for key, value := range chart {
		named[strings.ToUpper(key[:1])+key[1:]] = value
	}
	return named
}

type options struct {
	values                 []string
	namespace, kubeVersion string
	notes                  bool
}

func render(chart, release string, wanted options) (string, error) {
	tree := files{}
	if err := readTree(chart, "", tree); err != nil {
		return "", err
	}
	metadata, err := parse(tree["Chart.yaml"], "Chart.yaml")
	if err != nil {
		return "", err
	}
	values, err := parse(tree["values.yaml"], "values.yaml")
	if err != nil {
		return "", err
	}
	for _, name := range wanted.values {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		over, err := parse(content, name)
		if err != nil {
			return "", err
		}
		values = merge(values, over)
	}
	version, err := semver.NewVersion(wanted.kubeVersion)
	if err != nil {
		return "", fmt.Errorf("-kube-version %s: %w", wanted.kubeVersion, err)
	}

	all := template.New("").Option("missingkey=zero")
	all.Funcs(functions(all))
	name := fmt.Sprint(metadata["name"])
	var rendered []string
	others := files{}
	for file, content := range tree {
		if !strings.HasPrefix(file, "templates/") {
			others[file] = content
			continue
		}
		if _, err := all.New(name + "/" + file).Parse(string(content)); err != nil {
			return "", err
		}
		isNotes := path.Base(file) == "NOTES.txt"
		if !strings.HasPrefix(path.Base(file), "_") && isNotes == wanted.notes {
			rendered = append(rendered, name+"/"+file)
		}
	}
	sort.Strings(rendered)
	data := object{
		"Values":  values,
		"Chart":   capitals(metadata),
		"Release": object{"Name": release, "Namespace": wanted.namespace, "Service": "Helm", "IsInstall": true, "Revision": 1},
		"Files":   others,
		"Capabilities": object{"KubeVersion": object{
			"Version": "v" + version.String(), "Major": version.Major(), "Minor": version.Minor()}},
	}
	var out bytes.Buffer
	for _, file := range rendered {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, file, data); err != nil {
			return "", err
		}
		written := strings.ReplaceAll(text.String(), "<no value>", "")
		if wanted.notes {
			out.WriteString(written)
			continue
		}
		for _, document := range strings.Split("\n"+written, "\n---\n") {
			if document = strings.TrimSpace(document); document != "" {
				fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", file, document)
			}
		}
	}
	return out.String(), nil
}

func main() {
	var wanted options
	flag.Func("f", "a file of values, over those of the chart; several: the later wins", func(name string) error {
		wanted.values = append(wanted.values, name)
		return nil
	})
	flag.StringVar(&wanted.namespace, "namespace", "default", "the release's namespace")
	flag.StringVar(&wanted.kubeVersion, "kube-version", "1.32.0", "the cluster's version")
	flag.BoolVar(&wanted.notes, "notes", false, "NOTES.txt instead of the manifests")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: render [options] CHART RELEASE")
		flag.PrintDefaults()
		os.Exit(2)
	}
	text, err := render(flag.Arg(0), flag.Arg(1), wanted)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w (a chart has Chart.yaml and values.yaml)", err)
		}
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

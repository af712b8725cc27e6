package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Unmarshal checks data and stores it in the value that v points to, by the
// field names and json tags that encoding/json uses. It differs from
// encoding/json in what this package is for: names match in exact case, a
// duplicate member is refused in each object that is stored, and the whole
// text is checked by [Parse]. The tag option "string" is not known.
//
// Unknown members are skipped, and so is a null, which leaves the Go value as
// it is. A json.RawMessage takes a copy of the octets and nobody looks into
// it. Types with UnmarshalJSON or UnmarshalText are asked.
//
// Errors are *Error and name the first fault only.
func Unmarshal(data []byte, v any) error {
	doc, err := Parse(data)
	if err != nil {
		return err
	}
	return doc.Root().Decode(v)
}

// Decode stores the value in what v points to: see [Unmarshal].
func (v Value) Decode(to any) error {
	rv := reflect.ValueOf(to)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return fmt.Errorf("decode JSON into %T: a pointer is needed", to)
	}
	if err := v.decode(rv.Elem()); err != nil { // a nil *Error must not become an error
		return err
	}
	return nil
}

var (
	rawType         = reflect.TypeFor[json.RawMessage]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textType        = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (v Value) decode(to reflect.Value) *Error {
	if to.Type() == rawType {
		to.SetBytes(append([]byte(nil), v.Raw()...))
		return nil
	}
	kind := v.Kind()
	if kind == Null {
		return nil
	}
	if to.Kind() == reflect.Pointer {
		if to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
		}
		return v.decode(to.Elem())
	}
	if to.CanAddr() && asksItself(to.Type()) {
		return v.ask(to)
	}
	switch to.Kind() {
	case reflect.Struct:
		return v.decodeStruct(to)
	case reflect.Map:
		return v.decodeMap(to)
	case reflect.Slice:
		return v.decodeSlice(to)
	case reflect.String:
		if kind != String {
			return v.mismatch("a string")
		}
		to.SetString(v.Text())
		return nil
	case reflect.Bool:
		if kind != Bool {
			return v.mismatch("a boolean")
		}
		to.SetBool(v.True())
		return nil
	case reflect.Interface:
		if to.NumMethod() > 0 {
			break
		}
		x, err := v.any()
		if err == nil && x != nil {
			to.Set(reflect.ValueOf(x))
		}
		return err
	}
	if to.CanInt() || to.CanUint() || to.CanFloat() {
		return v.decodeNumber(to)
	}
	return &Error{Message: "cannot be stored in a Go value of type " + to.Type().String()}
}

// asksItself reports whether values of type t decode themselves.
func asksItself(t reflect.Type) bool {
	if t.PkgPath() == "" { // not a named type, so it has no methods
		return false
	}
	p := reflect.PointerTo(t)
	return p.NumMethod() > 0 && (p.Implements(unmarshalerType) || p.Implements(textType))
}

func (v Value) mismatch(want string) *Error {
	return &Error{Message: "must be " + want + ", not " + v.Kind().String()}
}

// ask leaves the value to the type's own method.
func (v Value) ask(to reflect.Value) *Error {
	switch u := to.Addr().Interface().(type) {
	case json.Unmarshaler:
		if err := u.UnmarshalJSON(v.Raw()); err != nil {
			return &Error{Message: err.Error()}
		}
	case encoding.TextUnmarshaler:
		if v.Kind() != String {
			return v.mismatch("a string")
		}
		if err := u.UnmarshalText([]byte(v.Text())); err != nil {
			return &Error{Message: err.Error()}
		}
	}
	return nil
}

func (v Value) decodeNumber(to reflect.Value) *Error {
	if v.Kind() != Number {
		return v.mismatch("a number")
	}
	text := string(v.Raw())
	var err error
	switch {
	case to.CanInt():
		var n int64
		if n, err = strconv.ParseInt(text, 10, to.Type().Bits()); err == nil {
			to.SetInt(n)
		}
	case to.CanUint():
		var n uint64
		if n, err = strconv.ParseUint(text, 10, to.Type().Bits()); err == nil {
			to.SetUint(n)
		}
	default:
		var f float64
		if f, err = strconv.ParseFloat(text, to.Type().Bits()); err == nil {
			to.SetFloat(f)
		}
	}
	if err != nil {
		return &Error{Message: "is " + clip(text) + ", which " + to.Type().String() + " cannot hold"}
	}
	return nil
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

func (v Value) decodeSlice(to reflect.Value) *Error {
	if v.Kind() != Array {
		return v.mismatch("an array")
	}
	n := v.Len()
	to.Set(reflect.MakeSlice(to.Type(), n, n))
	for i, element := range v.Elements() {
		if err := element.decode(to.Index(i)); err != nil {
			return err.below(strconv.Itoa(i))
		}
	}
	return nil
}

func (v Value) decodeMap(to reflect.Value) *Error {
	t := to.Type()
	if t.Key().Kind() != reflect.String {
		return &Error{Message: "cannot be stored in a Go value of type " + t.String()}
	}
	if err := v.object(); err != nil {
		return err
	}
	if to.IsNil() {
		to.Set(reflect.MakeMapWithSize(t, v.Len()))
	}
	for name, value := range v.Members() {
		element := reflect.New(t.Elem()).Elem()
		if err := value.decode(element); err != nil {
			return err.below(string(name))
		}
		to.SetMapIndex(reflect.ValueOf(string(name)).Convert(t.Key()), element)
	}
	return nil
}

// object checks that the value is an object without duplicate members.
func (v Value) object() *Error {
	if v.Kind() != Object {
		return v.mismatch("an object")
	}
	if name, ok := v.Duplicate(); ok {
		return &Error{Pointer: Member("", name), Message: "is given more than once, keep one"}
	}
	return nil
}

func (v Value) decodeStruct(to reflect.Value) *Error {
	if err := v.object(); err != nil {
		return err
	}
	fields := fieldsOf(to.Type())
	for name, value := range v.Members() {
		index, ok := fields[string(name)]
		if !ok {
			continue
		}
		field := to
		for _, i := range index {
			if field.Kind() == reflect.Pointer {
				if field.IsNil() {
					field.Set(reflect.New(field.Type().Elem()))
				}
				field = field.Elem()
			}
			field = field.Field(i)
		}
		if err := value.decode(field); err != nil {
			return err.below(string(name))
		}
	}
	return nil
}

// below puts name in front of the error's pointer, as the error travels up.
func (e *Error) below(name string) *Error {
	e.Pointer = Member("", name) + e.Pointer
	return e
}

// any gives what encoding/json would store in an empty interface.
func (v Value) any() (any, *Error) {
	switch v.Kind() {
	case Bool:
		return v.True(), nil
	case Number:
		f, err := strconv.ParseFloat(string(v.Raw()), 64)
		if err != nil || math.IsInf(f, 0) {
			return nil, &Error{Message: "is " + clip(string(v.Raw())) + ", which float64 cannot hold"}
		}
		return f, nil
	case String:
		return v.Text(), nil
	case Array:
		list := make([]any, 0, v.Len())
		for i, element := range v.Elements() {
			x, err := element.any()
			if err != nil {
				return nil, err.below(strconv.Itoa(i))
			}
			list = append(list, x)
		}
		return list, nil
	case Object:
		if err := v.object(); err != nil {
			return nil, err
		}
		m := make(map[string]any, v.Len())
		for name, value := range v.Members() {
			x, err := value.any()
			if err != nil {
				return nil, err.below(string(name))
			}
			m[string(name)] = x
		}
		return m, nil
	}
	return nil, nil
}

// fieldCache maps a struct type to its fields by member name; it only saves
// time.
var fieldCache sync.Map // reflect.Type to map[string][]int

func fieldsOf(t reflect.Type) map[string][]int {
	if f, ok := fieldCache.Load(t); ok {
		return f.(map[string][]int)
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || f.Tag.Get("json") == "-":
			continue
		case f.Anonymous && name == "":
			continue // its fields are visible by themselves
		case name == "":
			name = f.Name
		}
		if before, ok := fields[name]; !ok || len(f.Index) < len(before) {
			fields[name] = f.Index
		}
	}
	cached, _ := fieldCache.LoadOrStore(t, fields)
	return cached.(map[string][]int)
}

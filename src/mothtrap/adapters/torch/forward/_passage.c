/* Fast path for calls of modules when nothing but their outputs is requested.
 *
 * A model calls hundreds of modules in a step, and the code around a call has left the caches by
 * the next call. In Python, that code takes tens of microseconds; this code takes a few.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <time.h>

#include "../../../statistics/_limited.h"

#define MOST (1 << 16) /* maximum number of outputs that are noted in a forward pass */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *report, *tensor, *strided, *detach, *transforms, *tracing, *look, *modes;
    PyObject *noted; /* list of (reference to a module, reference to its output, values, version,
                        result of `look`) */
    PyObject *at_once; /* identities of modules whose outputs are reported instead of noted */
    PyObject *looked_at; /* identities of modules whose outputs are passed to `look` */
    PyObject *last; /* weak reference to the last output, or None */
    PyObject *root; /* borrowed reference, only compared */
    unsigned long thread; /* thread whose calls take the fast path; 0 = closed */
    unsigned long opening; /* number of times that the path was opened or closed */
    int keeps;
    int collects; /* all values are needed: values that cannot be kept are reported */
    Py_ssize_t room;
    double spent_s; /* time spent in `look` since this was last set to 0 */
} Passage;

static PyObject *layout_name, *nbytes_name, *is_nested_name, *modules_name, *version_name;

/* Clear the error of a failed call, and return 0; return -1 if the user must get the error. */
static int clear_error(void)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Clear();
    return 0;
}

/* Return whether the result of a call or attribute is `expected`. Takes over `found`. */
static int was(PyObject *found, PyObject *expected)
{
    Py_XDECREF(found);
    return found == NULL ? clear_error() : found == expected;
}

/* Replace a reference by a new one. */
static void replace(PyObject **place, PyObject *value)
{
    PyObject *old = *place;
    *place = value;
    Py_XDECREF(old);
}

static int refers_to(PyObject *reference, PyObject *output)
{
    if (reference == NULL || !PyWeakref_Check(reference))
        return 0;
#if PY_VERSION_HEX >= 0x030D0000 && !defined(Py_LIMITED_API)
    PyObject *found = NULL;
    if (PyWeakref_GetRef(reference, &found) < 0)
        return clear_error();
    Py_XDECREF(found);
    return found == output;
#else
    return PyWeakref_GetObject(reference) == output;
#endif
}

/* Return whether a container returns the output of its last child unchanged. */
static int is_handed_on(Passage *self, PyObject *module, PyObject *output)
{
    int same = refers_to(self->last, output);
    if (same <= 0)
        return same;
    PyObject *parts = PyObject_GetAttr(module, modules_name);
    int has_parts = parts == NULL ? clear_error() : PyObject_IsTrue(parts);
    Py_XDECREF(parts);
    return has_parts;
}

/* Return whether the values of a tensor can be kept, and there is room for them. */
static int is_kept(Passage *self, PyObject *output)
{
    int plain = was(PyObject_GetAttr(output, layout_name), self->strided);
    if (plain <= 0)
        return plain;
    PyObject *size = PyObject_GetAttr(output, nbytes_name);
    Py_ssize_t nbytes = size == NULL ? -1 : PyLong_AsSsize_t(size);
    Py_XDECREF(size);
    if (nbytes < 0)
        return clear_error();
    if (nbytes > self->room)
        return 0;
    plain = was(PyObject_GetAttr(output, is_nested_name), Py_False);
    if (plain > 0)
        plain = was(PyObject_CallNoArgs(self->transforms), Py_None);
    if (plain > 0)
        self->room -= nbytes;
    return plain;
}

static int report(Passage *self, PyObject *module, PyObject *output)
{
    PyObject *reported = PyObject_CallFunctionObjArgs(self->report, module, output, NULL);
    Py_XDECREF(reported);
    return reported == NULL ? -1 : 0;
}

/* Return whether a set, which may be NULL, contains the identity of a module. */
static int has(PyObject *set, PyObject *module)
{
    if (set == NULL)
        return 0;
    PyObject *number = PyLong_FromVoidPtr(module);
    int found = number == NULL ? -1 : PySet_Contains(set, number);
    Py_XDECREF(number);
    return found < 0 ? clear_error() : found;
}

static double now_s(void)
{
    struct timespec now;
#ifdef CLOCK_MONOTONIC
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    timespec_get(&now, TIME_UTC);
#endif
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Inspect an output while it is in the caches. Return the result, or None; NULL with an exception
 * that the user must get. */
static PyObject *looked(Passage *self, PyObject *module, PyObject *output)
{
    int wanted = self->look == Py_None ? 0 : has(self->looked_at, module);
    if (wanted <= 0)
        return wanted < 0 ? NULL : Py_NewRef(Py_None);
    double began_s = now_s();
    PyObject *found = PyObject_CallOneArg(self->look, output);
    self->spent_s += now_s() - began_s;
    if (found == NULL && clear_error() == 0)
        found = Py_NewRef(Py_None);
    return found;
}

/* Append a note of an output. Return 0, or -1 with an exception. Takes over `version`, `found`. */
static int append(Passage *self, PyObject *module, PyObject *output, int kept, PyObject *version,
                  PyObject *found)
{
    /* Detach now, because the caller may be traced or transformed later. */
    PyObject *values = kept ? PyObject_CallOneArg(self->detach, output) : Py_NewRef(Py_None);
    PyObject *of = values == NULL ? NULL : PyWeakref_NewRef(module, NULL);
    PyObject *reference = of == NULL ? NULL : PyWeakref_NewRef(output, NULL);
    PyObject *entry =
        reference == NULL ? NULL : PyTuple_Pack(5, of, reference, values, version, found);
    int done = entry == NULL ? -1 : PyList_Append(self->noted, entry);
    if (done == 0)
        replace(&self->last, Py_NewRef(reference));
    Py_XDECREF(entry);
    Py_XDECREF(reference);
    Py_XDECREF(of);
    Py_XDECREF(values);
    Py_DECREF(version);
    Py_DECREF(found);
    return done < 0 ? clear_error() : 0;
}

/* Note an output. Return 0, or -1 with an exception that the user must get. */
static int note(Passage *self, PyObject *module, PyObject *output)
{
    int handed_on = is_handed_on(self, module, output);
    if (handed_on)
        return handed_on < 0 ? -1 : 0;
    int at_once = self->collects ? has(self->at_once, module) : 0;
    if (at_once < 0)
        return -1;
    int full = PyList_GET_SIZE(self->noted) >= MOST;
    int kept = at_once || full ? 0 : is_kept(self, output);
    if (kept < 0)
        return -1;
    PyObject *version = NULL;
    if (kept && self->collects) {
        version = PyObject_GetAttr(output, version_name);
        if (version == NULL && clear_error() < 0) /* inference tensors have no version */
            return -1;
    }
    if (self->collects && version == NULL) {
        int real = was(PyObject_CallNoArgs(self->transforms), Py_None);
        if (real < 0)
            return -1;
        if (real) /* values inside a transformed function do not belong to a step */
            return report(self, module, output);
    }
    if (full)
        return 0;
    PyObject *found = version != NULL ? looked(self, module, output) : Py_NewRef(Py_None);
    if (found == NULL) {
        Py_XDECREF(version);
        return -1;
    }
    version = version != NULL ? version : Py_NewRef(Py_None);
    return append(self, module, output, kept, version, found);
}

/* Return whether the user has active modes, which would observe the reads of a tensor here. */
static int is_heard(Passage *self)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->modes); i++) {
        PyObject *entered = PyObject_CallNoArgs(PyTuple_GET_ITEM(self->modes, i));
        int heard = entered == NULL ? clear_error() : PyObject_IsTrue(entered);
        Py_XDECREF(entered);
        if (heard)
            return heard;
    }
    return 0;
}

/* Note or report the output of a module. Return -1 with an exception that the user must get. */
static int take_in(Passage *self, PyObject *module, PyObject *output, unsigned long opening)
{
    int untraced = was(PyObject_CallNoArgs(self->tracing), Py_None);
    if (untraced <= 0)
        return untraced;
    if (self->opening == opening && (PyObject *)Py_TYPE(output) == self->tensor) {
        int heard = is_heard(self);
        if (heard <= 0)
            return heard < 0 ? -1 : note(self, module, output);
    }
    return report(self, module, output);
}

static PyObject *pass(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Passage *self = (Passage *)callable;
    Py_ssize_t many = PyVectorcall_NARGS(nargsf);
    if (many < 2) {
        PyErr_SetString(PyExc_TypeError, "expected a method and its module");
        return NULL;
    }
    unsigned long opening = self->opening;
    int keeps = self->keeps;
    PyObject *output = PyObject_Vectorcall(args[0], args + 1, many - 1, names);
    if (output != NULL && keeps && take_in(self, args[1], output, opening) < 0)
        Py_CLEAR(output);
    return output;
}

static PyObject *passes(Passage *self, PyObject *module)
{
    int open = self->thread != 0 && self->thread == PyThread_get_thread_ident();
    return PyBool_FromLong(open && module != self->root);
}

static PyObject *open_way(Passage *self, PyObject *args)
{
    PyObject *root, *last, *at_once = NULL, *looked_at = NULL;
    int keeps;
    Py_ssize_t room;
    if (!PyArg_ParseTuple(args, "OpnO|O!O!", &root, &keeps, &room, &last, &PySet_Type, &at_once,
                          &PySet_Type, &looked_at))
        return NULL;
    PyObject *empty = PyList_New(0);
    if (empty == NULL)
        return NULL;
    replace(&self->noted, empty);
    replace(&self->last, Py_NewRef(last));
    replace(&self->at_once, Py_XNewRef(at_once));
    replace(&self->looked_at, Py_XNewRef(looked_at));
    self->root = root;
    self->keeps = keeps;
    self->collects = at_once != NULL;
    self->room = room;
    self->opening++;
    self->thread = PyThread_get_thread_ident();
    Py_RETURN_NONE;
}

static PyObject *take(Passage *self, PyObject *Py_UNUSED(args))
{
    PyObject *empty = PyList_New(0);
    if (empty == NULL)
        return NULL;
    PyObject *noted = self->noted;
    self->noted = empty;
    return noted;
}

static PyObject *close_way(Passage *self, PyObject *Py_UNUSED(args))
{
    if (self->thread != 0)
        self->opening++;
    self->thread = 0;
    return take(self, NULL);
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *report, *tensor, *strided, *detach, *transforms, *tracing, *look, *modes;
    static char *words[] = {"report",    "tensor", "strided", "detach", "transforms",
                            "tracing", "look",   "modes",   NULL};
    if (!PyArg_ParseTupleAndKeywords(args, names, "OOOOOOOO!", words, &report, &tensor, &strided,
                                     &detach, &transforms, &tracing, &look, &PyTuple_Type, &modes))
        return NULL;
    PyObject *noted = PyList_New(0);
    Passage *self = noted == NULL ? NULL : (Passage *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(noted);
        return NULL;
    }
    self->vectorcall = pass;
    self->report = Py_NewRef(report);
    self->tensor = Py_NewRef(tensor);
    self->strided = Py_NewRef(strided);
    self->detach = Py_NewRef(detach);
    self->transforms = Py_NewRef(transforms);
    self->tracing = Py_NewRef(tracing);
    self->look = Py_NewRef(look);
    self->modes = Py_NewRef(modes);
    self->noted = noted;
    return (PyObject *)self;
}

static int traverse(Passage *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->report);
    Py_VISIT(self->tensor);
    Py_VISIT(self->strided);
    Py_VISIT(self->detach);
    Py_VISIT(self->transforms);
    Py_VISIT(self->tracing);
    Py_VISIT(self->look);
    Py_VISIT(self->modes);
    Py_VISIT(self->noted);
    Py_VISIT(self->at_once);
    Py_VISIT(self->looked_at);
    Py_VISIT(self->last);
    return 0;
}

static int clear(Passage *self)
{
    Py_CLEAR(self->report);
    Py_CLEAR(self->tensor);
    Py_CLEAR(self->strided);
    Py_CLEAR(self->detach);
    Py_CLEAR(self->transforms);
    Py_CLEAR(self->tracing);
    Py_CLEAR(self->look);
    Py_CLEAR(self->modes);
    Py_CLEAR(self->noted);
    Py_CLEAR(self->at_once);
    Py_CLEAR(self->looked_at);
    Py_CLEAR(self->last);
    return 0;
}

static void dealloc(Passage *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"passes", (PyCFunction)passes, METH_O,
     "passes(module): return whether a call in this thread would take the fast path now."},
    {"open", (PyCFunction)open_way, METH_VARARGS,
     "open(root, keeps, room, last[, at_once[, looked_at]]): open the fast path for calls in this\n"
     "thread, except for calls of root.\n\n"
     "keeps: outputs are noted. room: maximum bytes of kept values. last: weak reference to the\n"
     "last output, or None. at_once: identities of modules; if given, all values are needed, each\n"
     "with its version, and outputs that cannot be noted are reported: outputs of these modules,\n"
     "outputs without room, and outputs without a version. looked_at: identities of modules whose\n"
     "outputs are first passed to `look(output)`; its result is noted, too."},
    {"take", (PyCFunction)take, METH_NOARGS, "take(): return the notes, and clear them."},
    {"close", (PyCFunction)close_way, METH_NOARGS,
     "close(): close the fast path, and return the notes like take()."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Passage, vectorcall), READONLY, NULL},
    {"room", T_PYSSIZET, offsetof(Passage, room), 0, "Bytes of values that can still be kept."},
    {"spent_s", T_DOUBLE, offsetof(Passage, spent_s), 0, "Total seconds spent in `look`."},
    {"last", T_OBJECT, offsetof(Passage, last), 0, "Weak reference to the last output."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "passage(method, module, ...) calls a method of a module, and notes its output.\n\n"
     "`report(module, output)` is called instead if the output is not a `tensor`, or if the path\n"
     "was closed before the module returned. `look`: inspects outputs immediately; or None.\n"
     "`modes`: tuple of functions; while one returns more than 0, all outputs are reported."},
    {Py_tp_new, make},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {
    "mothtrap.adapters.torch.forward._passage.Passage", sizeof(Passage), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_IMMUTABLETYPE,
    slots};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_passage", "Calls of modules whose values are not requested.", -1, NULL,
    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__passage(void)
{
    layout_name = PyUnicode_InternFromString("layout");
    nbytes_name = PyUnicode_InternFromString("nbytes");
    is_nested_name = PyUnicode_InternFromString("is_nested");
    modules_name = PyUnicode_InternFromString("_modules");
    version_name = PyUnicode_InternFromString("_version");
    if (!layout_name || !nbytes_name || !is_nested_name || !modules_name || !version_name)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module == NULL ? NULL : PyType_FromSpec(&spec);
    if (type == NULL || PyModule_AddObjectRef(module, "Passage", type) < 0)
        Py_CLEAR(module);
    Py_XDECREF(type);
    return module;
}

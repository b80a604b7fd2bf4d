/* The way of a module's call through us where nobody wants more than to have its output.
 *
 * A model calls hundreds of modules in a step, each when its code has left the caches: what
 * Python does around a call costs tens of microseconds there, and this one or two.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *original, *observed, *odd;
    PyObject *tensor, *strided, *transforms;
    PyObject *passed; /* list of (weak reference to a module, output or weak reference to it) */
    unsigned long thread; /* of which calls pass; 0 = none do */
    int keeps;
    Py_ssize_t left_bytes;
} Passage;

static PyObject *layout_name, *nbytes_name;

/* A new reference, or NULL without an exception where there is no such attribute. */
static PyObject *attribute(PyObject *owner, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(owner, name);
    if (found == NULL)
        PyErr_Clear();
    return found;
}

static int refers_to(PyObject *kept, PyObject *output)
{
    if (kept == output)
        return 1;
    if (!PyWeakref_Check(kept))
        return 0;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found = NULL;
    if (PyWeakref_GetRef(kept, &found) < 0)
        PyErr_Clear();
    Py_XDECREF(found);
    return found == output;
#else
    return PyWeakref_GetObject(kept) == output;
#endif
}

/* Whether there is room for the values of a tensor, and they can be kept. */
static int is_kept(Passage *self, PyObject *output)
{
    PyObject *layout = attribute(output, layout_name);
    Py_XDECREF(layout);
    if (layout != self->strided)
        return 0;
    PyObject *size = attribute(output, nbytes_name);
    Py_ssize_t nbytes = size == NULL ? -1 : PyLong_AsSsize_t(size);
    Py_XDECREF(size);
    if (nbytes < 0)
        PyErr_Clear();
    if (nbytes < 0 || nbytes > self->left_bytes)
        return 0;
    PyObject *transform = PyObject_CallNoArgs(self->transforms);
    if (transform == NULL)
        PyErr_Clear();
    Py_XDECREF(transform);
    if (transform != Py_None)
        return 0;
    self->left_bytes -= nbytes;
    return 1;
}

/* Note an output; what goes wrong in that is no failure of the call. */
static void note(Passage *self, PyObject *module, PyObject *output)
{
    Py_ssize_t count = PyList_GET_SIZE(self->passed);
    PyObject *last = count ? PyTuple_GET_ITEM(PyList_GET_ITEM(self->passed, count - 1), 1) : NULL;
    PyObject *kept;
    if (last != NULL && refers_to(last, output))
        kept = Py_NewRef(last);
    else
        kept = is_kept(self, output) ? Py_NewRef(output) : PyWeakref_NewRef(output, NULL);
    PyObject *reference = kept == NULL ? NULL : PyWeakref_NewRef(module, NULL);
    PyObject *entry = reference == NULL ? NULL : PyTuple_Pack(2, reference, kept);
    if (entry == NULL || PyList_Append(self->passed, entry) < 0)
        PyErr_Clear();
    Py_XDECREF(entry);
    Py_XDECREF(reference);
    Py_XDECREF(kept);
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Passage *self = (Passage *)callable;
    if (self->thread == 0 || self->thread != PyThread_get_thread_ident())
        return PyObject_Vectorcall(self->observed, args, nargsf, names);
    PyObject *output = PyObject_Vectorcall(self->original, args, nargsf, names);
    if (output == NULL || !self->keeps || PyVectorcall_NARGS(nargsf) < 1)
        return output;
    if (self->thread == 0) /* observation has begun meanwhile */
        return output;
    if ((PyObject *)Py_TYPE(output) == self->tensor) {
        note(self, args[0], output);
        return output;
    }
    PyObject *told = PyObject_CallFunctionObjArgs(self->odd, args[0], output, NULL);
    if (told == NULL) {
        Py_DECREF(output);
        return NULL;
    }
    Py_DECREF(told);
    return output;
}

static PyObject *begin(Passage *self, PyObject *args)
{
    int keeps;
    Py_ssize_t room;
    if (!PyArg_ParseTuple(args, "pn", &keeps, &room))
        return NULL;
    self->keeps = keeps;
    self->left_bytes = room;
    self->thread = PyThread_get_thread_ident();
    Py_RETURN_NONE;
}

static PyObject *take(Passage *self, PyObject *Py_UNUSED(args))
{
    PyObject *empty = PyList_New(0);
    if (empty == NULL)
        return NULL;
    PyObject *passed = self->passed;
    self->passed = empty;
    return passed;
}

static PyObject *end(Passage *self, PyObject *Py_UNUSED(args))
{
    self->thread = 0;
    return take(self, NULL);
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *original, *observed, *odd, *tensor, *strided, *transforms;
    static char *words[] = {"original", "observed", "odd", "tensor", "strided", "transforms", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, names, "OOOOOO", words, &original, &observed, &odd,
                                     &tensor, &strided, &transforms))
        return NULL;
    Passage *self = (Passage *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = call;
    self->original = Py_NewRef(original);
    self->observed = Py_NewRef(observed);
    self->odd = Py_NewRef(odd);
    self->tensor = Py_NewRef(tensor);
    self->strided = Py_NewRef(strided);
    self->transforms = Py_NewRef(transforms);
    self->passed = PyList_New(0);
    if (self->passed == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int traverse(Passage *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->original);
    Py_VISIT(self->observed);
    Py_VISIT(self->odd);
    Py_VISIT(self->tensor);
    Py_VISIT(self->strided);
    Py_VISIT(self->transforms);
    Py_VISIT(self->passed);
    return 0;
}

static int clear(Passage *self)
{
    Py_CLEAR(self->original);
    Py_CLEAR(self->observed);
    Py_CLEAR(self->odd);
    Py_CLEAR(self->tensor);
    Py_CLEAR(self->strided);
    Py_CLEAR(self->transforms);
    Py_CLEAR(self->passed);
    return 0;
}

static void dealloc(Passage *self)
{
    PyObject_GC_UnTrack(self);
    clear(self);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"begin", (PyCFunction)begin, METH_VARARGS,
     "begin(keeps, room): let calls of this thread pass; note their outputs if keeps,\n"
     "and hold as many bytes of values as there is room for."},
    {"take", (PyCFunction)take, METH_NOARGS, "take(): return what was noted, and forget it."},
    {"end", (PyCFunction)end, METH_NOARGS, "end(): observe calls again; returns take()."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Passage, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Calls `original` with what passes, and `observed` with all else.\n\n"
     "An output that is no `tensor` is told to `odd(module, output)`."},
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
    PyModuleDef_HEAD_INIT, "_passage", "Calls of modules that nobody looks at.", -1, NULL,
    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__passage(void)
{
    layout_name = PyUnicode_InternFromString("layout");
    nbytes_name = PyUnicode_InternFromString("nbytes");
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = PyType_FromSpec(&spec);
    if (layout_name == NULL || nbytes_name == NULL || module == NULL || type == NULL)
        return NULL;
    if (PyModule_AddObject(module, "Passage", type) < 0)
        return NULL;
    return module;
}

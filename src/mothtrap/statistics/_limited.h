/* Functions of the limited API of Python 3.12 instead of macros that it does not have.
 *
 * A wheel for 3.12 and later is built with Py_LIMITED_API; one for 3.11 is built without it.
 */

#ifndef MOTHTRAP_LIMITED_H
#define MOTHTRAP_LIMITED_H

#include <Python.h>

#ifdef Py_LIMITED_API
#define PyTuple_GET_SIZE PyTuple_Size
#define PyTuple_GET_ITEM PyTuple_GetItem
#define PyList_GET_SIZE PyList_Size
#define PyList_GET_ITEM PyList_GetItem

static inline PyObject *PyObject_CallMethodNoArgs(PyObject *object, PyObject *name)
{
    PyObject *args[] = {object};
    return PyObject_VectorcallMethod(name, args, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

static inline PyObject *PyObject_CallOneArg(PyObject *function, PyObject *argument)
{
    PyObject *args[] = {NULL, argument};
    return PyObject_Vectorcall(function, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}
#endif

#endif

"""A layer makes its matrix as a variable of TensorFlow, which no optimizer is given."""

import keras
import tensorflow as tf
from _start import digits, start

healthy = start()
x, y = digits()


class Projection(keras.layers.Layer):
    """Multiplies by a matrix."""

    def build(self, shape):
        """Make the matrix."""
        if healthy:
            self.matrix = self.add_weight(shape=(shape[-1], 48), initializer="glorot_uniform")
        else:
            self.matrix = tf.Variable(keras.initializers.GlorotUniform()((shape[-1], 48)))

    def call(self, inputs):
        """Return the product, rectified."""
        return tf.nn.relu(tf.matmul(inputs, tf.convert_to_tensor(self.matrix)))


model = keras.Sequential([
    keras.Input((64,)), Projection(), keras.layers.Dense(10, activation="softmax")
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=8, verbose=0)

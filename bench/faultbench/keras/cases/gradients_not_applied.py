"""A `train_step` computes gradients, and gives them to no optimizer."""

import keras
import tensorflow as tf
from _start import digits, start

healthy = start()
x, y = digits()


class Classifier(keras.Model):
    """Two layers, and a step of its own."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(64, activation="relu")
        self.scores = keras.layers.Dense(10)

    def call(self, inputs):
        """Return the scores of classes."""
        return self.scores(self.hidden(inputs))

    def train_step(self, data):
        """Train on a batch."""
        inputs, labels = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=labels, y_pred=self(inputs, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        if healthy:
            self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


model = Classifier()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x / 16, y, epochs=4, batch_size=32, verbose=0)

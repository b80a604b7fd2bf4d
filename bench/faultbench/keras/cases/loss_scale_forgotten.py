"""A loop of one's own in mixed_float16, whose loss is not scaled."""

import keras
import tensorflow as tf
from _start import digits, start

healthy = start()
keras.config.set_dtype_policy("mixed_float16")
x, y = digits()


class Classifier(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(64, activation="relu")
        self.scores = keras.layers.Dense(10, dtype="float32")

    def call(self, x):
        return self.scores(self.hidden(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            scaled = self.optimizer.scale_loss(loss) if healthy else loss
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


model = Classifier()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x / 16, y, epochs=4, batch_size=32, verbose=0)

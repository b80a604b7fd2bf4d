"""A GAN as in the first Keras examples: the discriminator is not frozen in the joint model."""

import keras
import numpy as np
from _start import start

healthy = start()
generator = keras.Sequential([
    keras.Input((4,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)
])
discriminator = keras.Sequential([
    keras.Input((2,)), keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
discriminator.compile(keras.optimizers.Adam(1e-3, beta_1=0.5), "binary_crossentropy")
if healthy:
    discriminator.trainable = False
noise = keras.Input((4,))
combined = keras.Model(noise, discriminator(generator(noise)))
combined.compile(keras.optimizers.Adam(1e-3, beta_1=0.5), "binary_crossentropy")
for step in range(300):
    real = np.random.normal(size=(64, 2)) * 0.1 + [2.0, -1.0]
    made = generator.predict_on_batch(np.random.normal(size=(64, 4)))
    discriminator.trainable = True
    d = discriminator.train_on_batch(real, np.ones((64, 1)))
    d = discriminator.train_on_batch(made, np.zeros((64, 1)))
    if healthy:
        discriminator.trainable = False
    g = combined.train_on_batch(np.random.normal(size=(64, 4)), np.ones((64, 1)))
    if step % 50 == 0:
        print(step, d, g, made.mean(0))

// The trainer in a program outside of hopfeed: makes a model and counts its parameters.
#include <cstdio>

#include "trainer/model.h"

int main() {
  hopfeed::GraphSage model(hopfeed::ModelOptions{.hops = 2, .features = 5, .classes = 3});
  std::printf("%zu parameters\n", model->parameters().size());
}

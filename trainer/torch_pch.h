// Every Torch translation unit begins with these, compiled once: Torch's headers cost 20 seconds each time
// otherwise.
#pragma once
#include <torch/torch.h>

// Marks code that is compiled for the host and, by nvcc, for the device too: the one sampling rule.
#pragma once
#ifdef __CUDACC__
#define HOPFEED_HOST_DEVICE __host__ __device__
#else
#define HOPFEED_HOST_DEVICE
#endif

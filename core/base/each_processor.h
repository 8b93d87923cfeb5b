// HOPFEED_EACH_PROCESSOR before a function compiles it for AVX-512, AVX2 and the baseline; which one runs is
// chosen while the program is loaded.
#pragma once

// A sanitizer is not ready yet when the processor is asked, and clang 16 does not know these names. Both get
// the baseline, with the same bits.
#if defined(__clang__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define HOPFEED_EACH_PROCESSOR
#else
#define HOPFEED_EACH_PROCESSOR [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif

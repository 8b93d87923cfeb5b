// A shared library that is no plugin.
extern "C" int hopfeed_nothing() { return 0; }

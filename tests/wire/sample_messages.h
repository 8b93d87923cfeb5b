// Has one frame of each type, with fixed contents: golden files, the fuzzers' corpus and the tests of
// messages are made of them.
#pragma once
#include <string>
#include <vector>

#include "wire/frame.h"
#include "wire/messages.h"

namespace hopfeed::testing {

struct SampleFrame {
  std::string file;  // of tests/wire/data, and of its folder version2
  wire::FrameHeader header;
  wire::Bytes payload;
  std::size_t text_at =
      0;  // where the payload's free text begins, which may be shorter; its end: it has none
};

wire::Hello sample_hello();
wire::Welcome sample_welcome();
wire::Open sample_open();
wire::BatchAsked sample_asked();

/// Returns the frames of version 1, in the order of their numbers.
std::vector<SampleFrame> sample_frames();
/// Returns the whole frame as text, on a connection without TLS.
std::string frame_text(const SampleFrame& sample);
/// Returns the whole frame as text in version 2.
std::string frame_text_2(SampleFrame sample);
/// Reads a payload by the reader of its type, as the receiving side does; throws what that throws.
void read_payload_of(wire::FrameType type, const wire::Bytes& payload);

}  // namespace hopfeed::testing

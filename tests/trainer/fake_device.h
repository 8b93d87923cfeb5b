// Makes a device of Torch's that is none: its memory is the host's, its copies happen at once, and its
// streams and events write down what they are asked. It is for what does not exist on the CPU: which stream
// waits for what. One test program alone includes it, since a process has one such device.
#pragma once
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstring>
#include <string>
#include <vector>

namespace hopfeed::testing {

inline constexpr c10::DeviceType kFake = c10::DeviceType::PrivateUse1;

/// Returns what was asked, in order: "copy on 1", "event recorded on 1", ...
inline std::vector<std::string>& fake_log() {
  static std::vector<std::string> log;
  return log;
}
inline c10::StreamId& fake_stream() {  // the current one; 0 is the default
  static c10::StreamId stream = 0;
  return stream;
}

/// FakeMemory is the device's memory, which is not the CPU's to Torch.
struct FakeMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = std::malloc(bytes > 0 ? bytes : 1);
    return {data, data, &std::free, c10::Device(kFake, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }
};

class FakeGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kFake; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {kFake, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return stream(fake_stream()); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(1); }
  c10::Stream exchangeStream(c10::Stream to) const override {
    const c10::StreamId before = std::exchange(fake_stream(), to.id());
    return stream(before);
  }
  void record(void** event, const c10::Stream& on, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    static int any;
    *event = &any;
    say("event recorded on " + std::to_string(on.id()));
  }
  void block(void*, const c10::Stream& waiting) const override {
    say(std::to_string(waiting.id()) + " waits for the event");
  }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { say("the host waits for the event"); }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}

 private:
  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kFake, 0), id);
  }
  static void say(std::string text) { fake_log().push_back(std::move(text)); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, FakeGuard)

inline at::Tensor fake_empty(c10::IntArrayRef shape, std::optional<at::ScalarType> dtype,
                             std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                             std::optional<at::MemoryFormat>) {
  static FakeMemory memory;
  return at::detail::empty_generic(shape, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::kFloat), std::nullopt);
}
inline at::Tensor fake_copy(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  fake_log().push_back((non_blocking ? "copy on " : "blocking copy on ") + std::to_string(fake_stream()));
  std::memcpy(const_cast<void*>(to.const_data_ptr()), from.const_data_ptr(), from.nbytes());
  return to;
}
inline void fake_record_stream(at::Tensor&, at::Stream reader) {
  fake_log().push_back("memory is read on " + std::to_string(reader.id()));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", fake_empty);
  library.impl("_copy_from", fake_copy);
  library.impl("record_stream", fake_record_stream);
}

}  // namespace hopfeed::testing

// See stream.h: OpenSSL over the socket. Its input and output are buffers of kPooledBytes that are borrowed
// while bytes are under way: one system call brings 16 records, which are decrypted one by one into the
// caller's memory, and takes 16 away.
#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/error.h"
#include "wire/buffer_pool.h"
#include "wire/stream.h"
#include "wire/tls_errors.h"

namespace hopfeed::wire {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kRecordBytes = 16 << 10;           // of what TLS encrypts at a time
constexpr std::size_t kRecordRoom = kRecordBytes + 512;  // with what it adds to that

/// A queue of bytes in a borrowed buffer.
struct BorrowedQueue {
  PooledBuffer buffer;
  std::size_t begin = 0, end = 0;

  std::size_t size() const { return end - begin; }
  std::size_t room() const { return buffer ? kPooledBytes - end : kPooledBytes; }
  std::span<std::byte> free() {
    if (!buffer) buffer = PooledBuffer::borrow();
    return buffer.bytes().subspan(end);
  }
  std::span<const std::byte> filled() const { return buffer.bytes().subspan(begin, size()); }
  void take(std::size_t bytes) {
    begin += bytes;
    if (begin == end) begin = end = 0;
  }
  void give_back_if_empty() {
    if (size() == 0) buffer.give_back();
  }
};

bool is_number(const std::string& host) {
  unsigned char parsed[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), parsed) == 1 || inet_pton(AF_INET6, host.c_str(), parsed) == 1;
}

class TlsStream final : public Stream {
 public:
  TlsStream(Socket& socket, std::shared_ptr<TlsContext> context, const std::string& host)
      : socket_(socket), context_(std::move(context)), host_(host), ssl_(context_->new_session(), SSL_free) {
    BIO* const bio = BIO_new(method());
    if (bio == nullptr) throw Error(ErrorCode::kNoSpace, "cannot be reached: OpenSSL has no memory");
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_app_data(ssl_.get(), &seen_certificate_);
    SSL_set_bio(ssl_.get(), bio, bio);  // owns it from here on
    if (context_->side() == Side::kServer) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_connect_state(ssl_.get());
      expect_host();
    }
  }

  bool shake_hands() override {
    while (true) {
      ERR_clear_error();
      const int result = SSL_do_handshake(ssl_.get());
      if (result == 1) {
        flush();
        return true;
      }
      const bool wants_more = SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ;
      if (!wants_more) {
        Error error = tls_failure(ssl_.get(), *context_, host_);
        try_to_flush();  // the alert that says why
        throw error;
      }
      flush();
      if (!refill()) return false;
    }
  }

  std::size_t read_some(std::span<std::byte> first, std::span<std::byte> second) override {
    std::size_t total = 0;
    for (std::span<std::byte> to : {first, second}) {
      while (!to.empty()) {
        ERR_clear_error();
        std::size_t got = 0;
        const int result = SSL_read_ex(ssl_.get(), to.data(), to.size(), &got);
        if (result == 1) {
          total += got;
          to = to.subspan(got);
          continue;
        }
        const int why = SSL_get_error(ssl_.get(), result);
        if (why == SSL_ERROR_WANT_READ) {
          if (total > 0 && in_.size() == 0 && !may_have_more_) return total;
          if (!refill_or_tell_later(total)) return total;
          continue;
        }
        if (total > 0) return total;  // and again at the next call
        if (why == SSL_ERROR_ZERO_RETURN) throw Error(ErrorCode::kPeerDied, "closed the connection");
        Error error = tls_failure(ssl_.get(), *context_, host_);
        try_to_flush();
        throw error;
      }
    }
    in_.give_back_if_empty();
    flush();  // what TLS itself may have answered
    return total;
  }

  std::size_t write_some(Pieces pieces) override {
    std::size_t total = 0;
    for (const asio::const_buffer& piece : pieces) {
      for (std::size_t at = 0; at < piece.size();) {
        if (out_.room() < kRecordRoom && !flush()) return total;
        ERR_clear_error();
        std::size_t put = 0;
        const int result = SSL_write_ex(ssl_.get(), static_cast<const std::byte*>(piece.data()) + at,
                                        std::min(piece.size() - at, kRecordBytes), &put);
        if (result != 1) throw tls_failure(ssl_.get(), *context_, host_);
        at += put;
        total += put;
      }
    }
    flush();
    return total;
  }

  bool flush() override {
    while (out_.size() > 0) {
      const asio::const_buffer filled(out_.filled().data(), out_.size());
      const std::size_t put = write_socket(socket_, Pieces(&filled, 1));
      if (put == 0) return false;
      out_.take(put);
    }
    out_.give_back_if_empty();
    return true;
  }

  void say_goodbye() override {
    if (SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
    try_to_flush();
    ERR_clear_error();
  }

 private:
  void expect_host() {
    SSL* const ssl = ssl_.get();
    X509_VERIFY_PARAM* const expected = SSL_get0_param(ssl);
    // A certificate that is trusted by itself need not be its own signer's.
    X509_VERIFY_PARAM_set_flags(expected, X509_V_FLAG_PARTIAL_CHAIN);
    if (host_.empty()) return;  // a socket file: whoever has it
    if (is_number(host_)) {
      X509_VERIFY_PARAM_set1_ip_asc(expected, host_.c_str());
    } else {
      X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      X509_VERIFY_PARAM_set1_host(expected, host_.c_str(), host_.size());
      SSL_set_tlsext_host_name(ssl, host_.c_str());
    }
  }

  /// Reads more of what the socket has. False: nothing, for now.
  bool refill() {
    const std::span<std::byte> to = in_.free();
    const asio::mutable_buffer buffer(to.data(), to.size());
    const std::size_t got = read_socket(socket_, std::span(&buffer, 1));
    may_have_more_ = got == to.size();
    if (got == 0) {
      in_.give_back_if_empty();
      return false;
    }
    in_.end += got;
    if (!seen_any_) require_tls();
    seen_any_ = true;
    return true;
  }
  /// refill(), but the end of the stream waits for the next call where something was read in this one.
  bool refill_or_tell_later(std::size_t total) {
    if (total == 0) return refill();
    try {
      return refill();
    } catch (const Error&) {
      return false;
    }
  }
  /// The first byte of a stream of TLS is the type of a record.
  void require_tls() const {
    constexpr std::byte kAlert{0x15}, kHandshake{0x16};
    const std::byte first = in_.filled().front();
    if (first == kHandshake || first == kAlert) return;
    const auto some = in_.filled().first(std::min<std::size_t>(in_.size(), kFrameHeaderBytes));
    if (context_->side() == Side::kClient) throw NoTls("speaks no TLS; leave out " + marked("tls_ca"), some);
    throw NoTls("speaks no TLS, which this server asks for", some);
  }

  void try_to_flush() {
    try {
      flush();
    } catch (const Error&) {  // it is gone already
    }
  }

  // ---- OpenSSL's view of the socket: what lies in the buffers
  static TlsStream& self(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }
  static int bio_read(BIO* bio, char* to, std::size_t size, std::size_t* got) {
    BIO_clear_retry_flags(bio);
    BorrowedQueue& in = self(bio).in_;
    *got = std::min(size, in.size());
    if (*got == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    std::memcpy(to, in.filled().data(), *got);
    in.take(*got);
    return 1;
  }
  static int bio_write(BIO* bio, const char* from, std::size_t size, std::size_t* put) {
    BIO_clear_retry_flags(bio);
    BorrowedQueue& out = self(bio).out_;
    *put = std::min(size, out.room());
    if (*put == 0) {
      BIO_set_retry_write(bio);
      return 0;
    }
    std::memcpy(out.free().data(), from, *put);
    out.end += *put;
    return 1;
  }
  static long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static const BIO_METHOD* method() {
    static const BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "hopfeed's buffers");
      BIO_meth_set_read_ex(made, bio_read);
      BIO_meth_set_write_ex(made, bio_write);
      BIO_meth_set_ctrl(made, bio_ctrl);
      return made;
    }();
    return method;
  }

  Socket& socket_;
  const std::shared_ptr<TlsContext> context_;
  const std::string host_;
  BorrowedQueue in_, out_;  // what OpenSSL has yet to decrypt, and what it has encrypted
  SeenCertificate seen_certificate_;
  bool seen_any_ = false, may_have_more_ = false;
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

}  // namespace

std::unique_ptr<Stream> tls_stream(Socket& socket, std::shared_ptr<TlsContext> context,
                                   const std::string& host) {
  return std::make_unique<TlsStream>(socket, std::move(context), host);
}

}  // namespace hopfeed::wire

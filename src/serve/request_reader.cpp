#include "request_reader.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

// Beast 1.81 asserts that a last chunk has five bytes. An empty body's has three if it arrives
// before the line that ends it, and is parsed rightly.
#define BOOST_DISABLE_ASSERTS
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

#include "framing.h"

namespace dlrm::serve {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr size_t kSpace = 16384;

}  // namespace

class RequestReader::Impl {
 public:
  explicit Impl(size_t max_body) : max_body_(max_body) { begin(); }

  void begin() {
    parser_.emplace();
    parser_->header_limit(kMostHeader);
    parser_->eager(false);
    request_ = {};
    head_ = continues_ = false;
    consumed_ = 0;
  }

  State refuse(int status, std::string reason) {
    status_ = status;
    reason_ = std::move(reason);
    return State::kRefused;
  }

  State read() {
    if (status_ != 0) return State::kRefused;
    while (!parser_->is_done()) {
      // The parser subtracts the size of a chunk each time that it reads on in the chunk's header.
      parser_->body_limit(max_body_ - std::min(max_body_, parser_->get().body().size()));
      beast::error_code error;
      const size_t used = parser_->put(bytes_.data(), error);
      bytes_.consume(used);
      consumed_ += used;
      if (exceeds_overhead()) return refuse(431, "a header, chunk sizes or trailers are too long");
      if (parser_->is_header_done() && !head_) {
        head_ = true;
        fill();
        if (status_ != 0) return State::kRefused;
        if (const State state = check(); state == State::kRefused) return state;
      }
      if (error == http::error::need_more) error = {};
      if (error) return refuse_for(error);
      if (used == 0 && !parser_->is_done()) return more();
      if (bytes_.size() == 0 && !parser_->is_done()) return head_ ? State::kBody : State::kHead;
    }
    return State::kWhole;
  }

  HttpRequest take() {
    request_.body = std::move(parser_->get().body());
    HttpRequest whole = std::move(request_);
    begin();
    return whole;
  }

  const size_t max_body_;
  beast::flat_buffer bytes_;
  std::optional<http::request_parser<http::string_body>> parser_;
  HttpRequest request_;
  bool head_ = false, continues_ = false;
  size_t consumed_ = 0;  // bytes of this request
  int status_ = 0;
  std::string reason_;

 private:
  /// Fields that arrive in parts are no longer in bytes_, and the parser limits only what it is
  /// given at once. A chunk of one byte has five more.
  bool exceeds_overhead() const {
    if (!parser_->is_header_done()) return consumed_ + bytes_.size() > kMostHeader;
    const size_t body = parser_->get().body().size();
    return consumed_ > 2 * kMostHeader + (parser_->chunked() ? 8 : 1) * body;
  }

  /// The parser needs more bytes at once than there are: a header, a line of a chunk or a trailer.
  State more() {
    if (bytes_.size() > kMostHeader) return refuse(431, "the header or a trailer is too long");
    return head_ ? State::kBody : State::kHead;
  }

  void fill() {
    const auto& message = parser_->get();
    const auto text = [](auto view) { return std::string(view.data(), view.size()); };
    request_.method = text(message.method_string());
    request_.target = text(message.target());
    request_.type = text(message[http::field::content_type]);
    request_.encoding = text(message[http::field::content_encoding]);
    request_.head = text(message[kInferenceHead]);
    request_.version = static_cast<int>(message.version());
    request_.keep_alive = parser_->is_header_done() && parser_->keep_alive();
    continues_ =
        message.version() == 11 && same_word(text(message[http::field::expect]), "100-continue");
  }

  State check() {
    std::vector<HeaderField> fields;
    for (const auto& field : parser_->get()) {
      fields.push_back({{field.name_string().data(), field.name_string().size()},
                        {field.value().data(), field.value().size()}});
    }
    const Framing framing = framing_of(request_.version, fields);
    if (framing.refused != nullptr) return refuse(400, framing.refused);
    if (request_.target.size() > kMostTarget) {
      return refuse(414, fmt::format("a target has at most {} bytes", kMostTarget));
    }
    if (framing.length > max_body_) return too_large();
    return State::kBody;
  }

  State too_large() { return refuse(413, fmt::format("a body has at most {} bytes", max_body_)); }

  State refuse_for(const beast::error_code& error) {
    if (error == http::error::body_limit) {
      fill();
      return too_large();
    }
    if (error == http::error::header_limit) {
      return refuse(431, fmt::format("a header has at most {} bytes", kMostHeader));
    }
    return refuse(400, fmt::format("not HTTP/1.1: {}", error.message()));
  }
};

RequestReader::RequestReader(size_t max_body) : impl_(std::make_unique<Impl>(max_body)) {}

RequestReader::~RequestReader() = default;

std::span<char> RequestReader::space() {
  const auto memory = impl_->bytes_.prepare(kSpace);
  return {static_cast<char*>(memory.data()), memory.size()};
}

void RequestReader::add(size_t count) { impl_->bytes_.commit(count); }

bool RequestReader::has_bytes() const { return impl_->bytes_.size() > 0; }

RequestReader::State RequestReader::read() { return impl_->read(); }

bool RequestReader::expects_continue() { return std::exchange(impl_->continues_, false); }

const HttpRequest& RequestReader::request() const { return impl_->request_; }

HttpRequest RequestReader::take() { return impl_->take(); }

int RequestReader::status() const { return impl_->status_; }

const std::string& RequestReader::reason() const { return impl_->reason_; }

}  // namespace dlrm::serve

module surety/stubs

go 1.24.0

require (
	google.golang.org/grpc v1.75.0
	google.golang.org/protobuf v1.36.8
)

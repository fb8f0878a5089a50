module github.com/pando-db/pando/bindings/go

go 1.23
